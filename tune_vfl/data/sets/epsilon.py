"""Epsilon: the Pascal challenge's made-up table of 2,000 columns, of which fifty are used."""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.base import dataset
from tune_vfl.data.options import SplitChoice
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.files import find_one, readable
from tune_vfl.data.sample import SampledOptions, incomplete
from tune_vfl.data.sets.steel_plates import labobf_recipe
from tune_vfl.errors import DataError
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import Training

_COLUMNS = 2_000
_OFFICIAL = (400_000, 100_000)
_LABELS = {b"-1": 0, b"1": 1, b"+1": 1}


class EpsilonOptions(SampledOptions):
    """Selection and partition of the columns."""

    split: SplitChoice = Field(0.46, description="share of the columns that the passive side holds: 23 of 50")
    columns: int = Field(
        50, ge=2, le=_COLUMNS, description="how many of the 2,000 columns are used, drawn once for all seeds"
    )


@dataset("epsilon")
class Epsilon(PublicSet[EpsilonOptions]):
    """500,000 rows, the official 100,000 are the test rows; 50 of 2,000 columns, 23 of them at the passive party.

    LabObf does not say which 50 columns it uses. Here they are drawn once, the same for every seed, and a larger
    ``columns`` adds to those of a smaller one. The rest of the recipe is LabObf's: bottoms 64-32-10, Adam 1e-3, batches
    of 256, 50 epochs, 100 labeled rows a class. Only the columns used are kept in memory. Reading takes minutes the
    first time, and a moment after that.
    """

    summary = "400,000 + 100,000 rows x 50 of 2,000 made-up columns, 2 classes"
    reference = "Pascal large scale learning challenge 2008, LIBSVM's epsilon_normalized; recipe of LabObf"
    Options = EpsilonOptions
    kept = True
    files = ("epsilon/epsilon_normalized", "epsilon/epsilon_normalized.t")
    source = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#epsilon"
    classes = ("-1", "1")
    recipe = labobf_recipe(Training(epochs=50, batch_size=256, lr=1e-3), 100)

    def read(self, options: EpsilonOptions, root: Path) -> Rows:
        """Read the training and the test file, packed (``.bz2``) or not."""
        paths = [find_one(root, [f"{file}.bz2", file], self.source) for file in self.files]
        used = drawn(options.columns)
        (x_train, y_train), (x_test, y_test) = (read_columns(path, used) for path in paths)
        x, y = (torch.from_numpy(np.concatenate(both)) for both in ((x_train, x_test), (y_train, y_test)))
        names, test_rows = [f"f{k}" for k in used], torch.arange(len(y_train), len(y))
        fewer = incomplete("the files hold", (len(y_train), len(y_test)), _OFFICIAL)
        return Rows(x, y, paths[0], names=names, test_rows=test_rows, notes=fewer)


def drawn(columns: int) -> list[int]:
    """Return the selected columns, counted from 1 as the files do, in order of assignment to parties."""
    return [int(k) + 1 for k in numpy_rng(0, "epsilon/columns").permutation(_COLUMNS)[:columns]]


def read_columns(
    path: Path, used: Sequence[int]
) -> tuple[np.ndarray[Any, np.dtype[np.float32]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Read some columns of a file in LIBSVM's format, line by line; every line must hold every column.

    Args:
        path: lines ``LABEL 1:VALUE 2:VALUE ... 2000:VALUE``, packed where the name ends in ``.bz2``.
        used: which columns, counted from 1.

    Returns:
        ``(N, len(used))``, and ``(N,)`` 1 for the label 1.

    Raises:
        DataError: naming the file, the line and the column.
    """
    rows: list[np.ndarray[Any, np.dtype[np.float32]]] = []
    labels: list[int] = []
    with readable(path), bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            fields = line.split()
            if len(fields) != _COLUMNS + 1 or fields[0] not in _LABELS:
                raise _odd(path, number, fields)
            labels.append(_LABELS[fields[0]])
            rows.append(_values(path, number, fields, used))
    if not rows:
        raise DataError(f"{path}: is empty; fetch it again")
    return np.stack(rows), np.array(labels, dtype=np.int64)


def _values(
    path: Path, number: int, fields: Sequence[bytes], used: Sequence[int]
) -> np.ndarray[Any, np.dtype[np.float32]]:
    values = np.empty(len(used), dtype=np.float32)
    for k, column in enumerate(used):
        name, _, value = fields[column].partition(b":")
        try:
            known = int(name) == column
            values[k] = float(value)
        except ValueError:
            known = False
        if not known or not np.isfinite(values[k]):
            shown = fields[column].decode("ascii", "replace")
            raise DataError(
                f"{path}: line {number} holds {shown!r} in the place of column {column}, expected "
                f"{column}:NUMBER; fetch the file again"
            )
    return values


def _odd(path: Path, number: int, fields: Sequence[bytes]) -> DataError:
    if fields and fields[0] not in _LABELS:
        shown = fields[0][:40].decode("ascii", "replace")
        return DataError(f"{path}: line {number} begins with {shown!r}, expected the label -1 or 1; fetch it again")
    return DataError(
        f"{path}: line {number} has {max(len(fields) - 1, 0):,} columns, expected {_COLUMNS:,}; if it is cut off, "
        "fetch it again"
    )

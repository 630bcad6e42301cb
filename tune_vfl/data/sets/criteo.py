"""Criteo: advertisements shown, in 39 columns, and whether they were clicked; each party hashes its own columns."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, Source, dataset
from tune_vfl.data.options import ByImportance, PartyOptions
from tune_vfl.data.partition import by_share
from tune_vfl.data.reading.files import find_one, readable
from tune_vfl.data.reading.table import open_text
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Training

COUNTS = tuple(f"I{k}" for k in range(1, 14))
FEATURES = (*COUNTS, *(f"C{k}" for k in range(1, 27)))
_CLASSES = ("shown", "clicked")
Values = dict[str, list[str]]


class CriteoOptions(PartyOptions):
    """Size of the part of the file that is read, and widths of the parties' columns."""

    rows: int = Field(100_000, ge=2, description="read the first so many rows; the whole file has 45,840,617")
    buckets: int = Field(1024, ge=2, description="0/1 columns that each party hashes its own columns into")
    balance: Literal["alternate"] | None = Field(
        None,
        description="alternate: of the rows read keep each whose label differs from that of the last one kept, as many "
        "of each class (Fu et al. 2022); none: all of them",
    )
    hashing: Literal["party", "field"] = Field(
        "party", description="party: all its columns into the same buckets; field: each column into a share of its own"
    )

    @model_validator(mode="after")
    def _columns_apart(self) -> CriteoOptions:
        if isinstance(self.split, ByImportance) and self.hashing == "party":
            raise ValueError("split by importance needs columns that are kept apart; set hashing: field")
        return self


@dataset("criteo")
class Criteo(Loader[CriteoOptions]):
    """13 counts and 26 categories as 0/1 columns by hash, missing values as a category; 1 row in 5 held out.

    A count above 2 becomes the whole part of its squared logarithm; a smaller one stays as it is. Then each
    ``column=value`` is a category and sets one of its party's ``buckets``, 0/1 columns, to 1. Each party hashes only
    its own columns, so that no party holds another's. ``hashing: field`` gives each column a share of its party's
    buckets, so that nets that learn vectors of categories (wide_deep, dcn, deepfm) know which buckets are one column.
    ``balance: alternate`` keeps the rows that Fu et al. 2022 keep, a third of the file: as many clicked as not.
    Widths are theirs: 4,096 buckets of the hash for each party. They train for 7 epochs of SGD at .05,
    which on 8,000 rows gives an AUC of .53; Adam 1e-3 gives .71 in 5 epochs.
    """

    summary = "advertisements x 39 columns with missing values, clicked or not; hashed at each party"
    reference = "Criteo Labs 2014, Display Advertising Challenge (train.txt); sizes of Fu et al. 2022"
    Options = CriteoOptions
    kept = True

    def load(self, options: CriteoOptions, root: Path) -> Dataset:
        """Read ``criteo/train.txt``, gzipped or not."""
        hint = "https://www.kaggle.com/c/criteo-display-ad-challenge"
        path = find_one(root, ["criteo/train.txt.gz", "criteo/train.txt"], hint)
        y, values = _read(path, options.rows)
        note = f"the first {len(y):,} rows of {path.name}"
        if options.balance == "alternate":
            # A row starts a run of equal labels where its label differs from that of the last one kept.
            kept = torch.cat([torch.ones(1, dtype=torch.bool), y[1:] != y[:-1]]).nonzero().squeeze(1)
            y, values = y[kept], {column: [of_all[k] for k in kept.tolist()] for column, of_all in values.items()}
            note = f"{len(y):,} of {note}: the labels alternate"
        partition = by_share(FEATURES, options.share, options.passive_parties, str(path))
        passive = tuple(_hashed(party, columns, values, options) for party, columns in partition.passive.items())
        active = _hashed("active", partition.active, values, options) if partition.active else None
        sizes = {"bottom_hidden": [64, 16], "embedding_dim": 4, "top_hidden": [8, 4]}
        return assemble(
            "criteo",
            (passive, active),
            y,
            _CLASSES,
            metric=options.metric,
            recipe=Recipe.of("mlp", Training(epochs=5, batch_size=256, lr=1e-3), 50, **sizes),
            test_share=0.2,
            notes=(note,),
            where=f"{path}: label (first) column",
        )


def _read(path: Path, rows: int) -> tuple[torch.Tensor, Values]:
    """Return the labels and each column's categories of the first rows."""
    labels: list[int] = []
    columns: list[list[str]] = [[] for _ in FEATURES]
    with readable(path), open_text(path) as file:
        for line, text in enumerate(islice(file, rows), start=1):
            fields = text.rstrip("\r\n").split("\t")
            if len(fields) != len(FEATURES) + 1:
                raise DataError(
                    f"{path}: line {line} has {len(fields)} tab-separated fields, expected a label and {len(FEATURES)} "
                    "columns; is the file cut off? fetch it again"
                )
            if fields[0] not in {"0", "1"}:
                raise DataError(f"{path}: the label in line {line} is {fields[0]!r}, expected 0 or 1; fetch it again")
            labels.append(int(fields[0]))
            for k, value in enumerate(fields[1:]):
                columns[k].append(_level(value, FEATURES[k], path, line) if k < len(COUNTS) else value)
    if not labels:
        raise DataError(f"{path}: is empty; expected a label and {len(FEATURES)} columns a line")
    return torch.tensor(labels), dict(zip(FEATURES, columns, strict=True))


def _level(text: str, column: str, path: Path, line: int) -> str:
    """Return the category of a count; an empty one is missing and stays empty."""
    try:
        count = int(text) if text else 0
    except ValueError as error:
        raise DataError(
            f"{path}: column {column} in line {line} holds {text!r}, expected a whole number; fetch the file again"
        ) from error
    return f"log{int(math.log(count) ** 2)}" if count > 2 else text


def _hashed(party: str, columns: Sequence[str], values: Values, options: CriteoOptions) -> Columns:
    buckets, by_field = options.buckets, options.hashing == "field"
    if by_field and buckets < 2 * len(columns):
        raise SpecError(
            f"dataset.buckets: {buckets} leave fewer than two to each of the {len(columns)} columns of party "
            f"{party!r}; raise it, or hash by party"
        )
    x = np.zeros((len(values[columns[0]]), buckets), dtype=np.float32)
    rows = np.arange(len(x))
    shares = [len(part) for part in np.array_split(np.arange(buckets), len(columns))] if by_field else []
    for k, column in enumerate(columns):
        found, codes = np.unique(np.array(values[column], dtype=object).astype(str), return_inverse=True)
        start, room = (sum(shares[:k]), shares[k]) if by_field else (0, buckets)
        x[rows, start + _buckets(column, found, room)[codes]] = 1
    sources = tuple(Source(c, "category", room) for c, room in zip(columns, shares, strict=False))
    shown = [f"{c} hash {k}" for c, room in zip(columns, shares, strict=False) for k in range(room)]
    names = tuple(shown or (f"hash {k}" for k in range(buckets)))
    return Columns(party, torch.from_numpy(x), names, torch.zeros(buckets, dtype=torch.bool), sources)


def _buckets(column: str, values: np.ndarray[Any, Any], buckets: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    # CRC-32 is the same in every process and on every machine; hash() is not.
    return np.array([zlib.crc32(f"{column}={value}".encode()) % buckets for value in values], dtype=np.int64)

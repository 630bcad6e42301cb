"""Test rows by a column: the latest ones, or whole groups, such as all rows of a customer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.data.assemble import lacking_class
from tune_vfl.data.codes import sorted_codes
from tune_vfl.data.options import Column
from tune_vfl.data.reading.marks import is_missing
from tune_vfl.data.reading.times import times_of
from tune_vfl.data.reserve import LEAST_OF_A_CLASS, LEAST_ROWS
from tune_vfl.errors import DataError
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tune_vfl.statistics.arrays import Floats, Ints

SHARE = 0.3
"""The share of the rows that are test rows; half of them are the reserve, where there is one."""
_DRAWS = 100


class ByTime(Strict):
    """The latest rows are the test rows and the reserve."""

    time: Column = Field(description="a column of dates, or of numbers that rise with time; never a feature")


class ByGroup(Strict):
    """Rows of one group are all training rows, all test rows, or all of the reserve."""

    group: Column = Field(description="a column that names the group of each row; never a feature")


_HALF: dict[type[Strict], str] = {ByTime: "the later half", ByGroup: "about half"}


class HeldOut(NamedTuple):
    """Test rows ``(m,)``, in rising order; those of them that are the reserve; and a note."""

    test_rows: Tensor
    reserved: Tensor
    note: str


def held_out(
    by: ByTime | ByGroup,
    values: pd.Series[Any],
    y: Tensor,
    class_names: Sequence[str],
    *,
    where: str,
    missing: Sequence[str] = (),
) -> HeldOut:
    """Choose the test rows and the reserve by a column.

    Args:
        by: which column, and how.
        values: ``(N,)`` its texts; the index counts the file's rows from 0.
        y: ``(N,)`` classes.
        class_names: K names.
        where: names the file, for messages.
        missing: texts that mean a missing value, beside the usual ones.

    Raises:
        DataError: for a row without a value, texts that are no times, or a column by which some class would be
            missing in training, test or reserve.
    """
    column = by.time if isinstance(by, ByTime) else by.group
    place = f"{where}: column {column!r} of split"
    lacking = is_missing(values, missing)
    if lacking.any():
        row = values.index[int(np.argmax(lacking))] + 1
        raise DataError(
            f"{place}: is missing in {int(lacking.sum())} of {len(values)} rows (first in row {row}); fill it in or "
            "remove these rows"
        )
    if isinstance(by, ByTime):
        times, read_as = times_of(values, place)
        found, note = _latest(times, column, place)
        note += read_as
    else:
        found, note = _whole_groups(values, y.numpy(), column, place)
    said = _without_reserve(found[1], y, class_names)
    _check_classes((found[0], found[1] & (said is None)), y, class_names, place)
    test, reserved = (torch.from_numpy(np.flatnonzero(rows)) for rows in found)
    return HeldOut(test, reserved, note + (f", {_HALF[type(by)]} of them the reserve" if said is None else said))


def _latest(times: Floats, column: str, place: str) -> tuple[tuple[Any, Any], str]:
    """Mark the latest rows; rows of one time are never parted."""
    first, middle = (_bound(times, share, place) for share in (SHARE, SHARE / 2))
    test = times >= first
    note = f"the latest {test.mean():.0%} of the rows by {column!r} are the test rows"
    return (test, times >= max(middle, first)), note


def _bound(times: Floats, share: float, place: str) -> float:
    """Return the time from which on the share of the rows is nearest to ``share``, and neither none nor all."""
    values, counts = np.unique(times, return_counts=True)
    if len(values) < 3:
        raise DataError(f"{place}: has {len(values)} different times; training, test and reserve need at least 3")
    later = counts[::-1].cumsum()[::-1] / len(times)
    return float(values[1 + int(np.abs(later[1:] - share).argmin())])


def _whole_groups(values: pd.Series[Any], labels: Ints, column: str, place: str) -> tuple[tuple[Any, Any], str]:
    """Draw groups, the same for every seed: of many draws the one whose classes have the most even shares."""
    of, names = sorted_codes(values.to_numpy(dtype=object))
    if len(names) < 3:
        raise DataError(f"{place}: has {len(names)} groups; training, test and reserve need at least 3")
    counts = np.zeros((len(names), int(labels.max()) + 1))
    np.add.at(counts, (of, labels), 1)
    rng = numpy_rng(0, "row_split/groups")
    best, least = np.zeros(len(names)), np.inf
    for _ in range(_DRAWS):
        parts = _drawn(counts.sum(1), rng.permutation(len(names)))
        shares = np.stack([counts[parts == k].sum(0) for k in (1, 2)]) / counts.sum(0)
        uneven = float(np.abs(shares - SHARE / 2).sum())
        if uneven < least:
            best, least = parts, uneven
    test = best[of] > 0
    said = f"{test.mean():.0%} of the rows are test rows of every seed"
    note = f"none of the {len(names):,} groups of {column!r} is in two parts; {said}"
    return (test, best[of] == 2), note


def _drawn(sizes: Floats, order: Ints) -> Floats:
    """Return for each group 0 (training), 1 (test) or 2 (reserve), filled in this order of groups."""
    share = sizes[order].cumsum() / sizes.sum()
    parts = np.zeros(len(sizes))
    middle = share - sizes[order] / sizes.sum() / 2  # a group belongs where its middle lies
    parts[order] = np.where(middle < SHARE / 2, 1, np.where(middle < SHARE, 2, 0))
    return parts


def _check_classes(found: tuple[Any, Any], y: Tensor, class_names: Sequence[str], place: str) -> None:
    test, reserved = found
    for part, rows in {"training": ~test, "test": test & ~reserved}.items():
        if lacking := lacking_class(y[torch.from_numpy(rows)], class_names):
            raise DataError(f"{place}: the {part} rows would have {lacking}; take another column, or leave out split")


def _without_reserve(reserved: Any, y: Tensor, class_names: Sequence[str]) -> str | None:
    """Return a note where a reserve would be too small, so that there is none; None where there is one."""
    if len(y) < LEAST_ROWS:
        return ""
    counts = np.bincount(y.numpy()[reserved], minlength=len(class_names))
    rarest = int(counts.argmin())
    if counts[rarest] >= LEAST_OF_A_CLASS:
        return None
    return (
        f"; no reserve: it would have {counts[rarest]:,} of its {counts.sum():,} rows of class "
        f"{class_names[rarest]!r}, and {LEAST_OF_A_CLASS} are needed"
    )

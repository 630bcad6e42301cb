"""Rows that are equal: copies of one another, which a split parts, and rows that only the label tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from tune_vfl.data.base import Columns
from tune_vfl.data.predictive_columns import file_columns
from tune_vfl.statistics.arrays import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

# So many times as many equal pairs as independent columns would have by chance are no chance.
_BEYOND_CHANCE = 10
_NAMED = 3


def equal_rows(parties: Sequence[Columns], y: Tensor, frames: Sequence[pd.DataFrame] = ()) -> list[str]:
    """Return notes on rows that are equal in all columns of all parties; none where chance may have made them so.

    Columns that look like identifiers do not count, so that copies which were numbered afterwards are found.

    Args:
        parties: all columns of N rows.
        y: ``(N,)`` labels.
        frames: the texts of these columns, a frame a party, by which rows that are encoded alike are told apart; their
            index counts the rows of the file from 0. Without any, rows are counted from 0.
    """
    told = [_telling(columns) for columns in parties]
    if not any(keep is None or keep.any() for keep in told):
        return []
    keys = _codes(_hashed(parties, told))
    some = np.flatnonzero(np.bincount(keys)[keys] > 1)
    if not len(some):
        return []
    keys = _codes(_texts(frames, parties, some)) if frames else keys[some]
    labels = y.numpy()[some]
    both = _codes([*zip(keys.tolist(), labels.tolist(), strict=True)])
    copied = np.bincount(both)[both] > 1
    other = np.bincount(keys)[keys] > np.bincount(both)[both]
    pairs = _pairs(both)
    by_chance = _by_chance(parties, told, len(y))
    rows = (frames[0].index.to_numpy() if frames else np.arange(len(y)))[some]
    group = ", or name a column of what they are copies of: split: {group: COLUMN}" if frames else ""
    notes = []
    if copied.any() and pairs > _BEYOND_CHANCE * by_chance:
        notes.append(
            f"{int(copied.sum()):,} of {len(y):,} rows are copies of one another, equal in all values and the label "
            f"({_first(both, copied, rows)}): copies on both sides of a split make scores too good; remove them{group}"
        )
    if other.any() and _pairs(keys) - pairs > _BEYOND_CHANCE * by_chance:
        notes.append(
            f"{int(other.sum()):,} of {len(y):,} rows are equal to one of another class in all values "
            f"({_first(keys, other, rows)}): no model tells them apart; is a column missing, or a row there twice?"
        )
    return notes


def _telling(columns: Columns) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return ``(d,)`` which encoded columns are of no identifier; None for all."""
    if not columns.sources:
        return None
    kept = [s.written is None or s.written.looks != "identifier" for s in columns.sources]
    return np.repeat(kept, [s.width for s in columns.sources])


def _hashed(parties: Sequence[Columns], told: Sequence[np.ndarray[Any, np.dtype[np.bool_]] | None]) -> list[Any]:
    rows = []
    for columns, keep in zip(parties, told, strict=True):
        x = columns.x.numpy()
        x = x if keep is None or keep.all() else x[:, keep]
        rows.append([hash(row.tobytes()) for row in np.ascontiguousarray(x)])
    return [*zip(*rows, strict=True)] if rows[1:] else rows[0]


def _texts(frames: Sequence[pd.DataFrame], parties: Sequence[Columns], some: Ints) -> list[Any]:
    rows: list[Any] = []
    for frame, columns in zip(frames, parties, strict=True):
        names = [s.name for s in columns.sources if s.written is None or s.written.looks != "identifier"]
        rows.append([hash(row) for row in frame[names].iloc[some].itertuples(index=False, name=None)])
    return [*zip(*rows, strict=True)]


def _codes(rows: list[Any]) -> Ints:
    """Return the place of each row among the different ones."""
    places: dict[Any, int] = {}
    return np.array([places.setdefault(row, len(places)) for row in rows])


def _pairs(codes: Ints) -> float:
    counts = np.bincount(codes).astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def _by_chance(parties: Sequence[Columns], told: Sequence[Any], rows: int) -> float:
    """Return how many pairs of rows would be equal if all columns were independent."""
    chance = rows * (rows - 1) / 2
    for columns, keep in zip(parties, told, strict=True):
        if len(columns.shape) != 1 or not columns.x.is_floating_point():
            return 0.0  # no two pictures or texts are equal by chance
        x = columns.x.numpy()
        for _, kind, begin, end in file_columns(columns):
            if kind == "category":
                shares: Floats = x[:, begin:end].mean(0, dtype=np.float64)
            else:
                values = np.where(np.isnan(x[:, begin]), np.inf, x[:, begin])
                shares = np.unique(values, return_counts=True)[1] / rows
            chance *= float(np.square(shares).sum()) if keep is None or keep[begin] else 1.0
    return float(chance)


def _first(codes: Ints, marked: Any, rows: Any) -> str:
    of = np.flatnonzero(codes == codes[int(np.argmax(marked))])
    named = [str(int(row) + 1) for row in rows[of[:_NAMED]]]
    return f"rows {', '.join(named[:-1])} and {named[-1]}"

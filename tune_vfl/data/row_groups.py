"""Columns whose values several rows share with most of their other values, as rows of one customer or patient do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tune_vfl.data.base import Columns
from tune_vfl.data.looks import LEAST_ROWS, has_fractions
from tune_vfl.data.predictive_columns import file_columns
from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.arrays import Bools, Ints

if TYPE_CHECKING:
    import pandas as pd

# An identifier has more values than a category, and each of them so many rows on average.
_MORE_VALUES, _SHARE_OF_ROWS, _REPEATED = 32, 0.02, 1.5
# So many columns with the most values are looked at, so many of their values, and so many pairs of rows.
_CANDIDATES, _VALUES, _PAIRS = 10, 400, 2_000
# Two rows of one value are equal in so many of their pairs, in columns in which at most so many of any two rows are.
_EQUAL, _BY_CHANCE = 0.95, 0.75
_LEAST_COLUMNS = 3
_SHOWN = 3


class _RowPairs(NamedTuple):
    """Two rows of one value each: their places in the table."""

    first: Ints
    second: Ints


def row_groups(parties: Sequence[Columns], frames: Sequence[pd.DataFrame]) -> list[str]:
    """Return a note on the column whose values most other columns follow, which a split of rows would part.

    Rows that are equal in all columns do not count: they are copies.

    Args:
        parties: the encoded columns of N rows, a table each.
        frames: the texts of these columns, a frame a party; the index counts the file's rows from 0.
    """
    best: tuple[int, str] = (0, "")
    for party, name in _candidates(parties):
        pairs = _pairs_of(frames[party][name])
        if len(pairs.first) < LEAST_ROWS:
            continue
        following, looked_at = _following(parties, pairs, but=(party, name))
        if len(following) >= max(_LEAST_COLUMNS, looked_at / 2, best[0] + 1):
            best = len(following), _told(name, following, looked_at, frames[party])
    return [best[1]] if best[1] else []


def _candidates(parties: Sequence[Columns]) -> list[tuple[int, str]]:
    """Return the columns that may say whose a row is, with the place of their party, those of most values first."""
    found = []
    for party, columns in enumerate(parties):
        rows = len(columns.x)
        for source in columns.sources:
            written = source.written
            if written is None or written.looks:  # identifiers and dates are named already
                continue
            if max(_MORE_VALUES, _SHARE_OF_ROWS * rows) < written.distinct <= rows / _REPEATED:
                found.append((written.distinct, party, source.name))
    return [(party, name) for _, party, name in sorted(found, key=lambda one: -one[0])[:_CANDIDATES]]


def _pairs_of(values: pd.Series[Any]) -> _RowPairs:
    """Draw some values, and return rows of one value in pairs; none of a column of numbers with decimals."""
    known = values[values != ""].unique()
    if has_fractions([str(value) for value in known[:_VALUES]]):
        return _RowPairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    rng = numpy_rng(0, "row groups")
    drawn = known[rng.permutation(len(known))[:_VALUES]]
    places = np.flatnonzero(values.isin(drawn).to_numpy(dtype=bool))
    texts = values.to_numpy(dtype=object)[places].astype(str)
    order = np.argsort(texts, kind="stable")
    neighbors = np.flatnonzero(texts[order][1:] == texts[order][:-1])
    neighbors = neighbors[rng.permutation(len(neighbors))[:_PAIRS]]
    return _RowPairs(places[order][neighbors], places[order][neighbors + 1])


def _following(parties: Sequence[Columns], pairs: _RowPairs, but: tuple[int, str]) -> tuple[list[str], int]:
    """Return the columns that are equal in nearly all pairs that are no copies, and how many could have been."""
    names, equal = [], []
    for place, columns in enumerate(parties):
        for name, alike, chance in _equalities(columns, pairs):
            if (place, name) != but and chance <= _BY_CHANCE:
                names.append(name)
                equal.append(alike)
    if not names:
        return [], 0
    table = np.stack(equal)
    table = table[:, ~table.all(0)]
    if table.shape[1] < LEAST_ROWS:
        return [], len(names)
    return [name for name, share in zip(names, table.mean(1), strict=True) if share >= _EQUAL], len(names)


def _equalities(columns: Columns, pairs: _RowPairs) -> Iterator[tuple[str, Bools, float]]:
    """Return each column's name, where its two values of a pair are equal, and the share of any two rows that are."""
    x = columns.x.numpy()
    first, second = x[pairs.first], x[pairs.second]
    other = second[numpy_rng(0, "row groups/chance").permutation(len(second))]
    names, begins = zip(*((name, begin) for name, _, begin, _ in file_columns(columns)), strict=True)
    same, chance = (_alike(first, rows, begins) for rows in (second, other))
    return zip(names, same.T, chance.mean(0).tolist(), strict=True)


def _alike(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], begins: Sequence[int]) -> Bools:
    """Return ``(n, columns)`` where two rows are equal in all that a column, encoded from ``begins`` on, became."""
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    alike: Bools = np.logical_and.reduceat(equal, begins, axis=1)
    return alike


def _told(name: str, following: Sequence[str], looked_at: int, frame: pd.DataFrame) -> str:
    values = frame[name]
    twice = values[(values.duplicated() & (values != "")).to_numpy(dtype=bool)].iloc[0]
    of = frame.index[(values == twice).to_numpy(dtype=bool)]
    rows = " and ".join(str(int(row) + 1) for row in of[:2])
    which = ", ".join(repr(column) for column in following[:_SHOWN])
    return (
        f"several rows have one value of {name!r} (rows {rows}), and with it the same in {len(following)} of "
        f"{looked_at} other columns ({which}{', ...' if following[_SHOWN:] else ''}): where they are one customer's or "
        f"patient's, a random split has some on both sides; name it: split: {{group: {json.dumps(name)}}}"
    )

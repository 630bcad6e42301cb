"""How much each parameter matters: its share in what a forest of regression trees varies by, over the whole space.

Hutter, Hoos and Leyton-Brown, "An efficient approach for assessing hyperparameter importance", ICML 2014. Optuna's own
answers the same and imports scikit-learn and scipy.stats for it, which takes a second of a core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tune_vfl.statistics.arrays import Bools, Floats, Ints

_TREES = 16
_SAME = 1e-12
"""Outcomes of one leaf differ by no more, as a share of what all of them differ by."""


class Column(NamedTuple):
    """What one parameter was in each setting.

    Attributes:
        values: ``(n,)`` numbers, or places in a list of words.
        words: how many words there are; 0 for numbers.
    """

    values: Floats
    words: int = 0


class _Cut(NamedTuple):
    """Settings of a column are on the left up to a number, or where they have one word."""

    column: int
    at: float


class _Leaf(NamedTuple):
    """A value, and the cuts that lead to it, each with the side that is taken."""

    value: float
    path: tuple[tuple[_Cut, bool], ...]


def shares(columns: list[Column], y: Floats, seed: int = 0) -> Floats | None:
    """Return the share of each column alone in the variance of ``y``, 0 to 1, the mean over the trees.

    What columns do together only is in no share, so they may sum to less than 1.

    Args:
        columns: at least one, of n settings each.
        y: ``(n,)``.
        seed: of the draws.

    Returns:
        A share a column; None where no tree finds a difference.
    """
    spread = float(np.ptp(y))
    if not spread:
        return None
    x = np.stack([column.values for column in columns], axis=1)
    draws, found = np.random.default_rng(seed), []
    for _ in range(_TREES):
        rows = draws.integers(len(y), size=len(y))
        leaves = list(_grown(x[rows], y[rows], columns, _SAME * spread**2))
        share = _of_tree(leaves, columns)
        if share is not None:
            found.append(share)
    return np.mean(found, axis=0) if found else None


def _grown(
    x: Floats, y: Floats, columns: list[Column], same: float, path: tuple[tuple[_Cut, bool], ...] = ()
) -> Iterator[_Leaf]:
    """Yield the leaves of a tree that is grown until what is left of it is alike."""
    cut = _best(x, y, columns) if float(y.var()) > same else None
    if cut is None:
        yield _Leaf(float(y.mean()), path)
        return
    left = _left(x[:, cut.column], cut, columns)
    for side, rows in ((True, left), (False, ~left)):
        yield from _grown(x[rows], y[rows], columns, same, (*path, (cut, side)))


def _left(values: Floats, cut: _Cut, columns: list[Column]) -> Bools:
    return values == cut.at if columns[cut.column].words else values <= cut.at


def _best(x: Floats, y: Floats, columns: list[Column]) -> _Cut | None:
    """Return the cut that leaves the least variance on its sides; None where all settings are the same."""
    best, most = None, -math.inf
    for place, column in enumerate(columns):
        cuts, count, total = _words(x[:, place], y) if column.words else _numbers(x[:, place], y)
        if len(cuts):
            gain = total**2 / count + (y.sum() - total) ** 2 / (len(y) - count)
            if gain.max() > most:
                best, most = _Cut(place, float(cuts[gain.argmax()])), float(gain.max())
    return best


def _numbers(values: Floats, y: Floats) -> tuple[Floats, Ints, Floats]:
    """Return the cuts between different numbers, and count and sum of what is on their left."""
    order = values.argsort(kind="stable")
    ordered = values[order]
    ends = np.flatnonzero(ordered[1:] > ordered[:-1])
    return ordered[ends] / 2 + ordered[ends + 1] / 2, (ends + 1).astype(np.int64), y[order].cumsum()[ends]


def _words(values: Floats, y: Floats) -> tuple[Floats, Ints, Floats]:
    """Return the cuts that take one word from the others, likewise."""
    words, where, count = np.unique(values, return_inverse=True, return_counts=True)
    if len(words) < 2:
        return words[:0], count[:0].astype(np.int64), words[:0]
    return words, count.astype(np.int64), np.bincount(where.reshape(-1), weights=y).astype(np.float64)


def _of_tree(leaves: list[_Leaf], columns: list[Column]) -> Floats | None:
    """Return each column's share in the variance of a tree's answer over the whole space; None where it has none.

    The space is cut into the cells of each column. Leaves fill it without overlap, so those that hold a cell of one
    column fill the space of the others: the mean answer in that cell is a sum of theirs.
    """
    values = np.array([leaf.value for leaf in leaves])
    held, sizes = zip(*(_cells(leaves, place, column) for place, column in enumerate(columns)), strict=True)
    parts = np.stack([cells @ size for cells, size in zip(held, sizes, strict=True)])
    weights = parts.prod(0)
    mean = weights @ values
    whole = weights @ (values - mean) ** 2
    if not whole > 0:
        return None
    alone = []
    for place, (cells, size) in enumerate(zip(held, sizes, strict=True)):
        others = np.delete(parts, place, axis=0).prod(0)
        alone.append(size @ (cells.T @ (values * others) - mean) ** 2)
    return np.asarray(np.array(alone) / whole)


def _cells(leaves: list[_Leaf], place: int, column: Column) -> tuple[Floats, Floats]:
    """Return which of a column's cells each leaf holds, ``(leaves, cells)`` of 0 and 1, and their sizes, of sum 1."""
    cuts = sorted({cut.at for leaf in leaves for cut, _ in leaf.path if cut.column == place})
    if column.words:
        points, sizes = np.arange(column.words, dtype=np.float64), np.full(column.words, 1 / column.words)
    else:
        edges = np.array([column.values.min(), *cuts, column.values.max()])
        points, sizes = edges[1:], np.diff(edges)
        sizes = sizes / sizes.sum() if sizes.sum() else np.ones(1)
    held = np.ones((len(leaves), len(points)))
    for row, leaf in enumerate(leaves):
        for cut, side in leaf.path:
            if cut.column == place:
                held[row] *= (points == cut.at if column.words else points <= cut.at) == side
    return held, sizes

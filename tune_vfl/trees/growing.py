"""A regression tree grown level by level on histograms of gradients, all nodes of a level at once.

A federated tree is the tree that one party with all columns would grow: each party sums gradients over the bins of its
own columns, and the label party takes the split of the largest gain among all. Nodes are numbered as in a heap, 0 the
root and ``2 k + 1``, ``2 k + 2`` the children of k. A node without a split hands its rows to its left child.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_vfl.trees.bins import Bins

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_LEAST_GAIN, _TINY = 1e-10, 1e-12


@dataclass(frozen=True)
class Growth:
    """Rules by which a tree is grown.

    Attributes:
        depth: levels of splits.
        l2: added to the sum of second derivatives of a node.
        min_child_weight: the least sum of second derivatives of a child.
    """

    depth: int = 4
    l2: float = 1.0
    min_child_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Tree:
    """A grown tree.

    Attributes:
        column: ``(2^depth - 1,)`` the column of each inner node's split, -1 where it has none.
        cut: ``(2^depth - 1,)`` rows of a larger bin go right.
        weight: ``(2^depth,)`` what each leaf adds to a row's score.
        leaf: ``(N,)`` the leaf, from 0, of each row that it was grown on.
    """

    column: Ints
    cut: Ints
    weight: Floats
    leaf: Ints

    def leaves_of(self, bins: Bins) -> Ints:
        """Return the leaf, from 0, of rows ``(F, n)``."""
        node = np.zeros(bins.shape[1], dtype=np.int64)
        inner = len(self.column)
        while bins.shape[1] and node[0] < inner:
            column = self.column[node]
            right = (column >= 0) & (bins[column, np.arange(len(node))] > self.cut[node])
            node = 2 * node + 1 + right
        return node - inner if bins.shape[1] else node


Allowed = Callable[[int, Ints], Bools]
"""Says which columns may split the nodes of a level, (M, F), from the level and the place of each row in it."""


@dataclass(frozen=True, eq=False)
class Parting:
    """A rule about single splits, by what rows of each class they part.

    Attributes:
        classes: ``(K, N)`` shares of the classes in each row.
        may: says which splits are allowed ``(F, M, W)`` from the classes on the left and on the right of each,
            ``(K, F, M, W)``.
    """

    classes: Floats
    may: Callable[[Floats, Floats], Bools]


def grow(bins: Bins, derivatives: Floats, rules: Growth, allowed: Allowed, parting: Parting | None = None) -> Tree:
    """Grow a tree.

    Args:
        bins: ``(F, N)`` of each column and row.
        derivatives: ``(2, N)`` first and second derivatives of the loss by the rows' scores; both 0 of rows that only
            pass through.
        rules: depth, and what a split needs.
        allowed: which columns may split which nodes, asked at every level, and once more for the leaves.
        parting: which splits are allowed; None: all.

    Example:
        >>> import numpy as np
        >>> bins, y = np.array([[0, 1, 2, 3]], dtype=np.uint8), np.array([0.0, 0.0, 1.0, 1.0])
        >>> every = lambda level, place: np.ones((2**level, 1), dtype=bool)
        >>> tree = grow(bins, np.stack([0.5 - y, np.full(4, 0.25)]), Growth(1, 0.0, 0.0), every)
        >>> tree.cut.tolist(), tree.leaf.tolist(), tree.weight.tolist()
        ([1], [0, 0, 1, 1], [-2.0, 2.0])
    """
    place, inner = np.zeros(bins.shape[1], dtype=np.int64), 2**rules.depth - 1
    column, cut = np.full(inner, -1, dtype=np.int64), np.zeros(inner, dtype=np.int64)
    for level in range(rules.depth):
        may, first = allowed(level, place), 2**level - 1
        best, at, found = _best_splits(bins, derivatives, place, may, rules, parting=parting)
        column[first : first + len(best)] = np.where(found, best, -1)
        cut[first : first + len(best)] = at
        right = bins[best[place], np.arange(len(place))] > at[place]
        place = 2 * place + (right & found[place])
    allowed(rules.depth, place)
    leaves = 2**rules.depth
    down, up = (np.bincount(place, values, leaves) for values in derivatives)
    weight = np.divide(-down, up + rules.l2, out=np.zeros(leaves), where=up + rules.l2 > _TINY)
    return Tree(column, cut, weight, place)


def _best_splits(
    bins: Bins, derivatives: Floats, place: Ints, may: Bools, rules: Growth, *, parting: Parting | None
) -> tuple[Ints, Ints, Bools]:
    """Return each node's column and cut of the largest gain, and whether there is any gain; the first of equal ones."""
    nodes = len(may)
    width = int(bins.max(initial=0)) + 1
    sums = _by_bin(bins, derivatives, place, nodes, width)
    left = sums.cumsum(-1)
    whole = left[..., -1:]
    right = whole - left
    gain = _score(left, rules.l2) + _score(right, rules.l2) - _score(whole, rules.l2)
    enough = (left[1] >= rules.min_child_weight) & (right[1] >= rules.min_child_weight)
    if parting is not None:
        inside = _by_bin(bins, parting.classes, place, nodes, width).cumsum(-1)
        enough &= parting.may(inside, inside[..., -1:] - inside)
    gain = np.where(enough & may.T[..., None], gain, -np.inf).transpose(1, 0, 2).reshape(nodes, -1)
    best = gain.argmax(-1)
    return best // width, best % width, gain.max(-1) > _LEAST_GAIN


def _by_bin(bins: Bins, values: Floats, place: Ints, nodes: int, width: int) -> Floats:
    """Return the sums ``(V, F, M, W)`` of values ``(V, N)`` of the rows, by column, node and bin."""
    sums = np.empty((len(values), len(bins), nodes, width))
    for k, column in enumerate(bins):
        key = place * width + column
        for of, row in zip(sums, values, strict=True):
            of[k] = np.bincount(key, row, nodes * width).reshape(nodes, width)
    return sums


def _score(sums: Floats, l2: float) -> Floats:
    """Return twice how much the best weight of nodes lowers the loss, from the sums ``(2, ...)`` of derivatives."""
    g, h = sums
    found: Floats = np.divide(g * g, h + l2, out=np.zeros_like(g), where=h + l2 > _TINY)
    return found

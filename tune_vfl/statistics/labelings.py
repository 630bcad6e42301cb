"""AUCs of the same scores under many labelings of their rows: the true one, or all permutations at once.

Ranks do not depend on the labels, so they are computed once, and what is left are sums of them over the positives: one
product of matrices. They are halves of whole numbers, so these sums are exact, in whatever order they are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tune_vfl.statistics.arrays import Bools, Floats, Ints

_NUMBERS_AT_ONCE = 2**22
_RANKED_AT_ONCE = 2**18


class Labelings:
    """Labelings of n rows, stored as numbers if they are few enough.

    Args:
        positive: ``(B, n)`` which rows are positive.
    """

    def __init__(self, positive: Bools) -> None:
        self.count, self.rows = positive.shape
        self._step = max(1, _NUMBERS_AT_ONCE // max(1, self.rows))
        self._held = positive.astype(np.float64) if self._step >= self.count else positive

    def parts(self) -> Iterable[Floats]:
        """Yield the labelings in order, in chunks."""
        for start in range(0, self.count, self._step):
            yield self._held[start : start + self._step].astype(np.float64, copy=False)


class _Ties(NamedTuple):
    """Scores ``(..., n)`` in rising order, with the begin and end of each group of ties."""

    order: Ints
    starts: Ints
    ends: Ints


def _ties(scores: Floats) -> _Ties:
    rows = scores.shape[-1]
    order = np.argsort(scores, axis=-1)
    rising = np.take_along_axis(scores, order, -1)
    begins = np.ones((*scores.shape[:-1], rows + 1), dtype=bool)
    begins[..., 1:-1] = rising[..., 1:] != rising[..., :-1]
    places = np.arange(rows + 1)
    starts = np.maximum.accumulate(np.where(begins, places, 0)[..., :-1], axis=-1)
    ends = np.minimum.accumulate(np.where(begins, places, rows)[..., :0:-1], axis=-1)[..., ::-1]
    return _Ties(order, starts, ends)


def midranks(scores: Floats) -> Floats:
    """Return ranks of ``(..., n)`` scores from 1; ties share their mean rank."""
    ties, ranks = _ties(scores), np.empty(scores.shape)
    np.put_along_axis(ranks, ties.order, (ties.starts + ties.ends + 1) / 2, -1)
    return ranks


def aucs(scores: Sequence[Floats], labelings: Labelings) -> Floats:
    """AUC of each of G scores ``(n,)`` on each of B labelings: ``(G, B)``; NaN without both classes."""
    step = max(1, _RANKED_AT_ONCE // max(1, labelings.rows))
    parts = [midranks(np.stack(scores[k : k + step])) for k in range(0, len(scores), step)]
    ranks = np.concatenate(parts).T
    found = []
    for positive in labelings.parts():
        count = positive.sum(1, keepdims=True)
        found.append(_areas(positive @ ranks, count, labelings.rows - count))
    return np.concatenate(found).T


def cross_fitted_aucs(scores: Sequence[Floats], labelings: Labelings, folds: Ints) -> Floats:
    """AUC of scores oriented on the other folds, see :func:`tune_vfl.statistics.floors.cross_fitted_auc_of_each`.

    Args:
        scores: G times ``(n,)``, finite.
        labelings: B of them.
        folds: ``(n,)`` the number of each row's fold. One in which a labeling leaves a class without rows counts for
            nothing in it.

    Returns:
        ``(G, B)``; NaN where no fold counts.
    """
    numbers, fold = np.unique(folds, return_inverse=True)
    held = fold.reshape(-1, 1) == np.arange(len(numbers))
    size, found = held.sum(0), []
    inside_and_all = [(positive @ held, positive.sum(1, keepdims=True)) for positive in labelings.parts()]
    for one in scores:
        ranks, areas = _ranks_by_fold(one, held), []
        inside = np.where(held, ranks, 0.0)
        for positive, (mine, all_of_them) in zip(labelings.parts(), inside_and_all, strict=True):
            sums = positive @ inside
            area = _areas(sums, mine, size - mine)
            beside = all_of_them - mine
            other = _areas(positive @ ranks - sums, beside, labelings.rows - size - beside)
            areas.append(_averaged(np.where(other < 0.5, 1 - area, area), mine * (size - mine) / size))
        found.append(np.concatenate(areas))
    return np.stack(found)


def _averaged(areas: Floats, shares: Floats) -> Floats:
    """Return the weighted mean over folds, summed fold by fold so that one labeling alone gives the same digits."""
    counted = np.where(shares > 0, shares * areas, 0.0)
    total, weight = (np.add.accumulate(column, axis=-1)[..., -1] for column in (counted, shares))
    return total / np.where(weight > 0, weight, np.nan)


def _ranks_by_fold(scores: Floats, held: Bools) -> Floats:
    """Return ranks ``(n, F)``: of a fold's rows within the fold, of all others among the rows outside of it.

    Args:
        scores: ``(n,)``.
        held: ``(n, F)`` membership of rows in folds.
    """
    ties = _ties(scores)
    below = np.zeros((len(held) + 1, held.shape[1]))
    np.cumsum(held[ties.order], axis=0, out=below[1:])
    before, everywhere = np.empty(held.shape), np.empty((len(held), 1))
    before[ties.order] = (below[ties.starts] + below[ties.ends]) / 2
    everywhere[ties.order, 0] = (ties.starts + ties.ends) / 2
    return np.where(held, before, everywhere - before) + 0.5


def _areas(sums: Floats, positives: Floats, negatives: Floats) -> Floats:
    """Return AUCs by the sums of the positives' ranks; NaN without both classes."""
    pairs = positives * negatives
    return np.where(pairs > 0, (sums - positives * (positives + 1) / 2) / np.maximum(pairs, 1), np.nan)

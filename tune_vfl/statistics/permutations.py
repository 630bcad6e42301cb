"""A test by permuted labels, all permutations at once: how often would answers that say nothing score as well?

It says whether anything leaks, not how much, and is no floor (:mod:`tune_vfl.statistics.nulls` has the test of a single
statistic, which this one is held to).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.nulls import PERMUTATIONS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tune_vfl.statistics.arrays import Bools, Floats, Ints


@lru_cache(maxsize=16)
def permutations_of(rows: int, seed: int, count: int = PERMUTATIONS) -> Ints:
    """Return ``(count, rows)`` orders of the rows; all that is scored with a seed is scored on the same ones."""
    rng = numpy_rng(seed, "scoring/permutations")
    orders: Ints = rng.permuted(np.tile(np.arange(rows), (count, 1)), axis=1)
    return orders


def permuted_aucs(scores: Floats, y: ArrayLike, orders: Ints) -> Floats:
    """AUC of scores ``(n,)`` on labels 0 or 1 ``(n,)`` in each of the orders ``(B, n)``: ``(B,)``."""
    labels = np.asarray(y)[orders] == 1
    return _aucs(_midranks(scores), labels.sum(-1), len(scores), labels)


def permuted_cross_fitted_aucs(scores: Floats, y: ArrayLike, folds: Ints, orders: Ints) -> Floats:
    """What :func:`~tune_vfl.statistics.floors.cross_fitted_auc` gives in each of the orders, ``(B,)``.

    The folds stay where they are. One in which an order leaves a class without rows counts for nothing.
    """
    labels = np.asarray(y)[orders] == 1
    total, weight = np.zeros(len(orders)), np.zeros(len(orders))
    for fold in np.unique(folds):
        held = folds == fold
        positives = labels[:, held].sum(-1)
        share = positives * (held.sum() - positives) / held.sum()
        inside = _within(scores, labels, held)
        turned = np.where(_within(scores, labels, ~held) < 0.5, 1 - inside, inside)
        total += np.where(share > 0, share * turned, 0.0)
        weight += share
    return total / np.where(weight > 0, weight, np.nan)


def permuted_hits(answers: ArrayLike, y: ArrayLike, orders: Ints) -> Floats:
    """Share of rows whose label is among a row's answers ``(n, k)``, in each of the orders: ``(B,)``."""
    labels, rows = np.asarray(y)[orders], np.asarray(answers)
    hits = np.zeros(labels.shape, dtype=bool)
    for column in rows.T:
        hits |= labels == column
    return np.asarray(hits.mean(-1))


def _within(scores: Floats, labels: Bools, rows: Bools) -> Floats:
    inside = labels[:, rows]
    return _aucs(_midranks(scores[rows]), inside.sum(-1), int(rows.sum()), inside)


def _aucs(ranks: Floats, positives: Ints, rows: int, labels: Bools) -> Floats:
    pairs = positives * (rows - positives)
    above = labels @ ranks - positives * (positives + 1) / 2
    return np.where(pairs > 0, above / np.maximum(pairs, 1), np.nan)


def _midranks(scores: Floats) -> Floats:
    """Return ranks from 1; equal scores share the mean of theirs."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place.reshape(-1)])

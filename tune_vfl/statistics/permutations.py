"""A permutation test on labels, all permutations at once: how often uninformative answers score as well.

It says whether anything leaks, not how much, and is no floor: the flattery of a maximum fades as the signal grows and
a floor does not, so that subtracting it understates leakage. Floors come from cross-fitting
(:mod:`tune_vfl.statistics.floors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.arrays import Floats, Ints
from tune_vfl.statistics.labelings import Labelings, aucs, cross_fitted_aucs

PERMUTATIONS = 99
"""How many: they resolve a p of .01."""


@lru_cache(maxsize=16)
def permutations_of(rows: int, seed: int) -> Ints:
    """Return ``(PERMUTATIONS, rows)`` orders of the rows, the same ones for all scores of a seed."""
    rng = numpy_rng(seed, "scoring/permutations")
    orders: Ints = rng.permuted(np.tile(np.arange(rows), (PERMUTATIONS, 1)), axis=1)
    return orders


def permuted_aucs(scores: Sequence[Floats], y: ArrayLike, orders: Ints) -> Floats:
    """AUC of G scores ``(n,)`` on labels 0 or 1 ``(n,)`` in each of the orders ``(B, n)``: ``(G, B)``."""
    return aucs(scores, Labelings(np.asarray(y)[orders] == 1))


def permuted_cross_fitted_aucs(scores: Sequence[Floats], y: ArrayLike, folds: Ints, orders: Ints) -> Floats:
    """:func:`~tune_vfl.statistics.floors.cross_fitted_auc_of_each` in each of the orders, ``(G, B)``.

    The folds stay where they are. One in which an order leaves a class without rows counts for nothing.
    """
    return cross_fitted_aucs(scores, Labelings(np.asarray(y)[orders] == 1), folds)


def permuted_hits(answers: ArrayLike, y: ArrayLike, orders: Ints) -> Floats:
    """Share of rows whose label is among a row's answers ``(n, k)``, in each of the orders: ``(B,)``."""
    labels, rows = np.asarray(y)[orders], np.asarray(answers)
    hits = np.zeros(labels.shape, dtype=bool)
    for column in rows.T:
        hits |= labels == column
    return np.asarray(hits.mean(-1))


def p_value(found: Sequence[float], null: Sequence[ArrayLike]) -> float:
    """Probability, under exchangeable labels, of a success at least as large as the largest observed one.

    Args:
        found: the success of each variant that the attacker may commit to.
        null: the success of each on permuted labels, ``(B,)`` the same permutations for all.

    Returns:
        ``(1 + permutations at least as large) / (1 + permutations)``, in (0, 1]. A permutation without a success counts
        as large.
    """
    largest = np.max(np.asarray(null, dtype=np.float64), axis=0)
    # Rounding must not tell apart what is equal.
    as_large = int((~(largest < max(found) - 1e-12)).sum())
    return (1 + as_large) / (1 + len(largest))

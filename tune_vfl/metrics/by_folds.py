"""AUCs within folds: for scores whose sign, or whose rule, may depend on the labels of other folds only.

numpy in, float out. On scores that say nothing these are 1/2 on average, exactly, however few rows there are; an AUC
that is folded at 1/2, or that measures rows which the rule was fitted to, is above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tune_vfl.metrics.utility import Floats, Labels


def stratified_folds(y: Labels, keys: Floats, most: int = 10) -> Labels:
    """Assign rows to ``min(most, n1, n0)`` folds, each with its share of both classes.

    Args:
        y: ``(n,)`` 0 or 1.
        keys: ``(n,)`` random numbers, by which the rows of a class fall into folds.
        most: the largest number of folds.

    Returns:
        ``(n,)`` numbers of folds, all 0 where a class has less than two rows.
    """
    positives = int((y == 1).sum())
    folds = np.empty(len(y), dtype=np.int64)
    folds[np.lexsort((keys, y))] = np.arange(len(y)) % max(min(most, positives, len(y) - positives), 1)
    return folds


def auc_within_folds(scores: Floats, y: Labels, folds: Labels, *, flip: bool) -> float:
    """Return the mean over folds of the AUC of a fold's rows, weighted by ``n1 n0 / (n1 + n0)`` of each.

    Args:
        scores: ``(n,)`` larger is more positive; ties count one half.
        y: ``(n,)`` 0 or 1.
        folds: ``(n,)`` numbers of folds from 0.
        flip: turn a fold's AUC over where the rows of the other folds rank their negatives higher.

    Returns:
        A number in [0, 1]; NaN where no fold has both classes, with ``flip`` where the others have not, or with a score
        that is not finite.
    """
    if not len(y) or not np.isfinite(scores).all():
        return float("nan")
    won, pairs = _pairs_won(scores, y, folds)
    own_won, own_pairs = np.diag(won), np.diag(pairs)
    if flip:
        others_won = won.sum() - won.sum(0) - won.sum(1) + own_won
        others_pairs = pairs.sum() - pairs.sum(0) - pairs.sum(1) + own_pairs
        own_won = np.where(2 * others_won < others_pairs, own_pairs - own_won, own_won)
        own_won = np.where(2 * others_won == others_pairs, own_pairs / 2, own_won)
        own_pairs = np.where(others_pairs > 0, own_pairs, 0)
    rows = np.bincount(folds, minlength=len(own_pairs))
    counted = own_pairs > 0
    if not counted.any():
        return float("nan")
    weights = own_pairs[counted] / rows[counted]
    return float(np.average(own_won[counted] / own_pairs[counted], weights=weights))


def _pairs_won(scores: Floats, y: Labels, folds: Labels) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``(F, F)``: of the pairs of a positive of fold f and a negative of fold g, how many rank right, and all.

    Ties count one half.
    """
    count = int(folds.max()) + 1
    _, place = np.unique(scores, return_inverse=True)
    positive, values = y == 1, int(place.max()) + 1
    negatives = np.zeros((values, count))
    np.add.at(negatives, (place[~positive], folds[~positive]), 1.0)
    below = negatives.cumsum(0) - negatives / 2
    won = np.zeros((count, count))
    np.add.at(won, folds[positive], below[place[positive]])
    n1 = np.bincount(folds[positive], minlength=count)
    n0 = np.bincount(folds[~positive], minlength=count)
    return won, np.outer(n1, n0).astype(np.float64)

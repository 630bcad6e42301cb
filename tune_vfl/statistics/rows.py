"""Variance of a utility over other test rows of the same source, estimated from the rows alone.

Store it with every seed's utility, because scores are not kept; an interval then adds it
(:class:`tune_vfl.statistics.intervals.Estimate`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import finite
from tune_vfl.statistics.floors import auc_pieces


def delong_variance(scores: ArrayLike, y: ArrayLike) -> float:
    """Variance of an AUC over rows (DeLong et al. 1988): that of the positives' placements, and of the negatives'.

    Args:
        scores: ``(n,)`` finite, larger is more positive.
        y: ``(n,)`` 0 or 1.

    Returns:
        At least 0; NaN with fewer than two rows of a class.

    Example:
        >>> from tune_vfl.statistics import delong_variance
        >>> round(delong_variance([0.1, 0.4, 0.35, 0.8], y=[0, 0, 1, 1]), 4)
        0.125
    """
    values, labels = finite(scores, "rows", "scores"), np.asarray(y)
    if labels.shape != values.shape:
        raise ShapeError(f"expected scores and labels (rows,), got {values.shape} and {labels.shape}")
    if min((labels == 1).sum(), (labels == 0).sum()) < 2:
        return float("nan")
    return float(sum(piece.var(ddof=1) / len(piece) for piece in auc_pieces(values, labels)))


def share_variance(share: float, rows: int) -> float:
    """Variance of an accuracy, or another share of rows: ``p (1 - p) / n``.

    Raises:
        UsageError: without rows, or for a share outside [0, 1].

    Example:
        >>> from tune_vfl.statistics import share_variance
        >>> round(share_variance(0.9, rows=1000) ** 0.5, 4)
        0.0095
    """
    if rows < 1 or not 0 <= share <= 1:
        raise UsageError(f"expected a share in [0, 1] of at least 1 row, got {share} of {rows}")
    return share * (1 - share) / rows

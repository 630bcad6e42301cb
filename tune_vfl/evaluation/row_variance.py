"""Variance of a utility over other test rows, estimated from the rows alone and stored with each seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_vfl.metrics.utility import positive_margin, utility
from tune_vfl.statistics.rows import delong_variance, share_variance


def row_variance(metric: str, scores: NDArray[np.float64], y: NDArray[np.integer[Any]]) -> float:
    """Return the variance over test rows of the utility of ``(n, K)`` class scores.

    Args:
        metric: the utility metric.
        scores: finite.
        y: ``(n,)`` labels.

    Returns:
        At least 0; NaN where there is no formula: an AUC of more than two classes, balanced accuracy, F1.
    """
    if metric == "auc" and scores.shape[1] == 2:
        return delong_variance(positive_margin(scores), y)
    if metric in ("accuracy", "top5"):
        return share_variance(utility(metric, scores, y), len(y))
    return float("nan")

"""Variance of a utility over other test rows, estimated from the rows alone and stored with each seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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


def variances_of(metric: str, scores: Tensor, labels: Tensor) -> list[float]:
    """Return :func:`row_variance` of each of ``(members, n, K)`` class scores; NaN for scores that are not finite.

    Args:
        metric: the utility metric.
        scores: on the CPU.
        labels: ``(members, n)``.
    """
    sound = torch.isfinite(scores).flatten(1).all(1).tolist()
    return [
        row_variance(metric, s, y) if fine else float("nan")
        for fine, s, y in zip(sound, scores.double().numpy(), labels.numpy(), strict=True)
    ]

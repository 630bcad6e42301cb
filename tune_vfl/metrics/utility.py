"""Utility metrics of a model; attacks' scores share AUC and F1.

numpy in, float out. Larger is better. What is undefined (no rows, one class only where two are needed, a score that is
not finite) is NaN, never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_vfl.errors import ShapeError, UsageError

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]


def auc(scores: Floats, y: Labels) -> float:
    """Area under the ROC curve: the chance that a positive outscores a negative, a tie counting one half.

    Args:
        scores: ``(n,)``, larger is more positive.
        y: ``(n,)`` 0 or 1.

    Returns:
        A number in [0, 1]; NaN without positives, without negatives, or with a score that is not finite.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import auc
        >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
        0.75
    """
    positive = np.asarray(y) == 1
    scores = np.asarray(scores, dtype=np.float64)
    above, below = scores[positive], np.sort(scores[~positive])
    if not len(above) or not len(below) or not np.isfinite(scores).all():
        return float("nan")
    # Twice the number of negatives that each positive outscores; scipy.stats takes a second to import.
    won = np.searchsorted(below, above) + np.searchsorted(below, above, side="right")
    return float(won.sum() / (2 * len(above) * len(below)))


def positive_margin(scores: Floats) -> NDArray[np.float64]:
    """``s1 - s0`` of ``(n, 2)`` class scores in float64, which keeps float32 probabilities near 0 and 1 apart."""
    margin: NDArray[np.float64] = scores[:, 1].astype(np.float64) - scores[:, 0]
    return margin


def ovr_auc(scores: Floats, y: Labels) -> float:
    """AUC of ``(n, K)`` class scores: the positive class's for K = 2, else one class against the rest, averaged.

    Classes that no row has are left out of the average.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import ovr_auc
        >>> scores = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
        >>> ovr_auc(scores, np.array([0, 1, 2]))
        1.0
    """
    if not np.isfinite(scores).all():
        return float("nan")
    if scores.shape[1] == 2:
        return auc(positive_margin(scores), y)
    parts = [auc(scores[:, c], (y == c).astype(np.int64)) for c in range(scores.shape[1])]
    known = [p for p in parts if np.isfinite(p)]
    return float(np.mean(known)) if known else float("nan")


def accuracy(scores: Floats, y: Labels) -> float:
    """Share of rows whose true class has the largest of the ``(n, K)`` scores, the first on ties."""
    return float((scores.argmax(1) == y).mean()) if len(y) and np.isfinite(scores).all() else float("nan")


def balanced_accuracy(scores: Floats, y: Labels) -> float:
    """Mean, over the classes that occur, of the share of a class's rows that are predicted correctly."""
    if not len(y) or not np.isfinite(scores).all():
        return float("nan")
    right = scores.argmax(1) == y
    return float(np.mean([right[y == c].mean() for c in np.unique(y)]))


def top5(scores: Floats, y: Labels) -> float:
    """Share of rows whose true class is among the five largest of the ``(n, K)`` scores.

    A tie is broken as :func:`numpy.argmax` breaks it: the lower class first. With five classes or fewer it is 1.
    """
    if not len(y) or not np.isfinite(scores).all():
        return float("nan")
    mine = np.take_along_axis(scores, y[:, None].astype(np.int64), axis=1)
    earlier = np.arange(scores.shape[1])[None, :] < y[:, None]
    before_me = (scores > mine) | ((scores == mine) & earlier)
    return float((before_me.sum(1) < 5).mean())


def f1_of(predicted: Labels, y: Labels, positive: int = 1) -> float:
    """F1 of one class over all rows pooled, ``2PR / (P + R)``; 0 where precision or recall is undefined."""
    hits = int(((predicted == positive) & (y == positive)).sum())
    called, present = int((predicted == positive).sum()), int((y == positive).sum())
    return 2.0 * hits / (called + present) if called and present else 0.0


def macro_f1(predicted: Labels, y: Labels) -> float:
    """Mean of the F1 of every class that occurs in the truth or in the predictions; NaN without rows."""
    classes = np.union1d(y, predicted[predicted >= 0])
    return float(np.mean([f1_of(predicted, y, int(c)) for c in classes])) if len(y) else float("nan")


def f1(scores: Floats, y: Labels) -> float:
    """F1 of ``(n, K)`` class scores: of class 1 for K = 2, the mean over classes else."""
    if not len(y) or not np.isfinite(scores).all():
        return float("nan")
    predicted = scores.argmax(1)
    return f1_of(predicted, y) if scores.shape[1] == 2 else macro_f1(predicted, y)


METRICS: Mapping[str, Callable[[Floats, Labels], float]] = {
    "auc": ovr_auc,
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1": f1,
    "top5": top5,
}


def utility(metric: str, scores: Floats, y: Labels) -> float:
    """Measure class scores against true labels.

    Args:
        metric: ``auc``, ``accuracy``, ``balanced_accuracy``, ``f1`` or ``top5``.
        scores: ``(n, K)`` class scores, K >= 2, larger is more likely.
        y: ``(n,)`` labels ``0..K-1``.

    Returns:
        A number in [0, 1], larger is better; NaN where it is undefined.

    Raises:
        UsageError: for another metric.
        ShapeError: for scores of another shape.
    """
    if metric not in METRICS:
        raise UsageError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")
    if scores.ndim != 2 or scores.shape[1] < 2 or len(scores) != len(y):
        raise ShapeError(f"expected scores (n, K >= 2) for {len(y)} labels, got shape {scores.shape}")
    return METRICS[metric](scores, y)

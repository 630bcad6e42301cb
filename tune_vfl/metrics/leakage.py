"""Success metrics of label attacks.

numpy in, float out. Larger is more leakage. What is undefined is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.metrics import utility
from tune_vfl.metrics.utility import Floats, Labels

Aggregate = Literal["epoch", "batch_mean", "batch_q95"]


def positive_score(scores: Floats) -> Floats:
    """Return one number a row, larger is more positive, from ``(n,)`` binary scores or ``(n, 2)`` class scores.

    Raises:
        ShapeError: for scores of more than two classes.
    """
    if scores.ndim == 1:
        return scores
    if scores.ndim != 2 or scores.shape[1] != 2:
        raise ShapeError(f"leak AUC is for two classes, got scores of shape {scores.shape}")
    return utility.positive_margin(scores)


def leak_auc(
    scores: Floats,
    y: Labels,
    flip: bool = True,
    aggregate: Aggregate = "epoch",
    batches: Sequence[tuple[int, int]] | None = None,
) -> float:
    """Leak AUC: how well binary scores tell positives from negatives, ties counting one half.

    Args:
        scores: ``(n,)``, or ``(n, 2)`` class scores.
        y: ``(n,)`` 0 or 1.
        flip: take ``max(AUC, 1 - AUC)``, for scores whose positive end the attacker does not know (GAFM, eq. 10).
            Scores without any information then come out above 1/2, by about 0.4 standard deviations of the AUC.
        aggregate: all rows pooled, or the mean or 95% quantile of the AUCs of the batches; batches with one class only
            are dropped.
        batches: ``(start, stop)`` of each batch, needed unless ``aggregate`` is ``epoch``.

    Returns:
        A number in [0, 1], at least 1/2 with ``flip``; NaN without positives or without negatives.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import leak_auc
        >>> scores, y = np.array([0.9, 0.8, 0.2, 0.1]), np.array([0, 0, 1, 1])
        >>> leak_auc(scores, y)  # the attacker does not know which end is positive
        1.0
        >>> leak_auc(scores, y, flip=False)
        0.0
    """
    column = positive_score(scores)
    if aggregate == "epoch":
        return _oriented(column, y, flip)
    if batches is None:
        raise UsageError(f"aggregate={aggregate!r} needs the batches' (start, stop)")
    values = np.array([_oriented(column[start:stop], y[start:stop], flip) for start, stop in batches])
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan")
    return float(values.mean() if aggregate == "batch_mean" else np.quantile(values, 0.95))


def _oriented(scores: Floats, y: Labels, flip: bool) -> float:
    area = utility.auc(scores, y)
    return turned(area) if flip else area


def turned(area: float) -> float:
    """Return the larger of an AUC and that of the negated scores; NaN stays one."""
    return max(area, 1 - area)


def predictions(scores: Floats) -> Labels:
    """Predicted labels ``(n,)``, -1 where there is none.

    Class scores ``(n, K)`` predict their largest entry, the first on ties; a row of equal entries, or with one that is
    not finite, predicts nothing. Binary scores ``(n,)`` predict 1 in the upper half of their range (min-max scaled
    above 1/2), a convention that knows no label; scores that are all 0 or 1 (or bool) are predictions already.
    """
    if scores.ndim == 1:
        scores = np.asarray(scores, dtype=np.float64)
        if not len(scores) or np.isin(scores, (0.0, 1.0)).all():
            return scores.astype(np.int64)
        upper: Labels = (scores > (scores.min() + scores.max()) / 2).astype(np.int64)
        return upper
    undecided = ~np.isfinite(scores).all(1) | (scores == scores[:, :1]).all(1)
    predicted: Labels = np.where(undecided, -1, scores.argmax(1))
    return predicted


def top1(scores: Floats, y: Labels) -> float:
    """Attack success rate: the share of rows whose label is predicted (see :func:`predictions`); NaN without rows."""
    return float((predictions(scores) == y).mean()) if len(y) else float("nan")


def top5(scores: Floats, y: Labels) -> float:
    """Share of rows whose label is among the five largest class scores; rows without a prediction count as wrong."""
    if not len(y):
        return float("nan")
    decided = predictions(scores) >= 0
    return utility.top5(scores[decided], y[decided]) * float(decided.mean()) if decided.any() else 0.0


def f1(scores: Floats, y: Labels) -> float:
    """F1 of the positive class, pooled; the mean over classes for more than two; NaN without rows."""
    if not len(y):
        return float("nan")
    predicted = predictions(scores)
    binary = scores.ndim == 1 or scores.shape[1] == 2
    return utility.f1_of(predicted, y) if binary else utility.macro_f1(predicted, y)


def advantage(success: float, floor: float, *, clip: bool = True) -> float:
    """``(success - floor) / (1 - floor)``: how far an attack gets from its floor to certainty; clipped to [0, 1].

    The floor is the success that needs no federation. A floor of 1 leaves nothing to gain: 0. NaN in, NaN out.
    Without ``clip`` a success below the floor is negative.

    Example:
        >>> from tune_vfl.metrics import advantage
        >>> round(advantage(0.8, floor=0.6), 3)
        0.5
    """
    if np.isnan(success) or np.isnan(floor):
        return float("nan")
    if floor >= 1:
        return 0.0
    gained = (success - floor) / (1 - floor)
    return min(max(gained, 0.0), 1.0) if clip else gained

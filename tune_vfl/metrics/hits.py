"""Top-1 accuracy and F1 of many sets of two-class scores at once.

The same numbers as :func:`tune_vfl.metrics.leakage.top1` and :func:`tune_vfl.metrics.leakage.f1`, which take one set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tune_vfl.metrics.together import of_each
from tune_vfl.metrics.utility import Floats, Labels


class Hits(NamedTuple):
    """Top-1 and F1 of one set of scores; NaN without rows.

    Attributes:
        top1: the share of rows whose label is predicted.
        f1: of the positive class.
    """

    top1: float
    f1: float


def hits_of(scores: Sequence[Floats], y: Sequence[Labels]) -> list[Hits]:
    """Return top-1 and F1 of each set of class scores.

    Args:
        scores: G times ``(n, 2)``; n may differ.
        y: G times ``(n,)`` 0 or 1.
    """
    return of_each(_hits, scores, y)


def _hits(scores: Floats, y: Labels) -> list[Hits]:
    rows = y.shape[1]
    if not rows:
        return [Hits(float("nan"), float("nan"))] * len(y)
    negative, positive = scores[..., 0], scores[..., 1]
    decided = np.isfinite(scores).all(-1) & (negative != positive)
    says_positive, says_negative, true = decided & (positive > negative), decided & (positive < negative), y == 1
    hits = (says_positive & true).sum(1)
    right = hits + (says_negative & (y == 0)).sum(1)
    called, present = says_positive.sum(1), true.sum(1)
    f1 = np.where((called > 0) & (present > 0), 2.0 * hits / np.maximum(called + present, 1), 0.0)
    return [Hits(*of_one) for of_one in np.stack([right / rows, f1], axis=1).tolist()]

"""ROC curves of many binary scores at once: AUC and the true-positive rate at low false-positive rates.

An AUC is an average over all thresholds; what a few sure guesses reveal shows at a low false-positive rate. The areas
are those of :func:`tune_vfl.metrics.utility.auc`, which takes one set of scores: both divide whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tune_vfl.metrics.together import of_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tune_vfl.metrics.utility import Floats, Labels

    Counts = NDArray[np.int64]

_ONE_PERCENT = 0.01


class Ends(NamedTuple):
    """Summary numbers of one ROC curve.

    Attributes:
        area: the AUC.
        sure: the share of the positives that is found while at most 1% of the negatives are accused.
        turned_sure: the same by the negated scores.

    All are NaN without both classes, or with a score that is not finite.
    """

    area: float
    sure: float
    turned_sure: float


def ends_of(scores: Sequence[Floats], y: Sequence[Labels]) -> list[Ends]:
    """Return the summary numbers of each set of scores.

    Args:
        scores: G times ``(n,)``, larger is more positive; n may differ.
        y: G times ``(n,)`` 0 or 1.
    """
    return of_each(_ends, scores, y)


def _ends(scores: Floats, y: Labels) -> list[Ends]:
    order = np.argsort(-scores, axis=1)
    falling = np.take_along_axis(scores, order, 1)
    ends_group = np.ones(scores.shape, dtype=bool)
    ends_group[:, :-1] = falling[:, 1:] != falling[:, :-1]
    found: Counts = np.cumsum(np.take_along_axis(y == 1, order, 1), axis=1, dtype=np.int64)
    accused: Counts = np.arange(1, scores.shape[1] + 1) - found
    # Within a group of equal scores the curve stands where the last group ended: equal scores are told together.
    found, accused = (np.maximum.accumulate(np.where(ends_group, counts, 0), axis=1) for counts in (found, accused))
    found, accused = (np.pad(counts, ((0, 0), (1, 0))) for counts in (found, accused))
    defined = (found[:, -1] > 0) & (accused[:, -1] > 0) & np.isfinite(scores).all(1)
    told = np.full((len(scores), 3), np.nan)
    told[defined] = np.stack(_told(found[defined], accused[defined]), axis=1)
    return [Ends(*of_one) for of_one in told.tolist()]


def _told(found: Counts, accused: Counts) -> tuple[Floats, Floats, Floats]:
    """Return the fields of :class:`Ends`, one number per curve.

    Args:
        found: ``(G, n + 1)`` positives beyond each threshold, from none of the rows to all.
        accused: ``(G, n + 1)`` negatives.
    """
    positives, negatives = found[:, -1:], accused[:, -1:]
    # Of a positive and a negative, of which the positive has the larger score; a tie counts one half.
    pairs = ((accused[:, 1:] - accused[:, :-1]) * (found[:, 1:] + found[:, :-1])).sum(1, keepdims=True) / 2
    turned = _at_one_percent((negatives - accused[:, ::-1]) / negatives, (positives - found[:, ::-1]) / positives)
    return (pairs / (positives * negatives))[:, 0], _at_one_percent(accused / negatives, found / positives), turned


def _at_one_percent(accused: Floats, found: Floats) -> Floats:
    """Return the true-positive rate at a false-positive rate of 1%, linearly interpolated as numpy.interp does."""
    last = (accused <= _ONE_PERCENT).sum(1, keepdims=True) - 1
    (x0, x1), (y0, y1) = ([np.take_along_axis(v, last + k, 1)[:, 0] for k in (0, 1)] for v in (accused, found))
    between = (y1 - y0) / (x1 - x0) * (_ONE_PERCENT - x0) + y0
    return np.where(x0 == _ONE_PERCENT, y0, between)

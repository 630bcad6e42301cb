"""ROC curves of many binary scores at once: one sort of each tells its AUC and what a few sure guesses reveal.

The same numbers as :func:`tune_vfl.metrics.utility.auc` and :func:`tune_vfl.metrics.leakage.success_at_one_percent`,
which take one set of scores each: both divide whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tune_vfl.metrics.utility import Floats, Labels

    Counts = NDArray[np.int64]

_NUMBERS_AT_ONCE = 2**18
_ONE_PERCENT = 0.01


class Ends(NamedTuple):
    """What one curve tells.

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
    """Return what the curve of each set of scores tells.

    Args:
        scores: G times ``(n,)``, larger is more positive; n may differ.
        y: G times ``(n,)`` 0 or 1.
    """
    found: dict[int, Ends] = {}
    for some in alike([len(s) for s in scores]):
        together = _ends(np.stack([scores[i] for i in some]), np.stack([y[i] for i in some]) == 1)
        found.update(zip(some, together, strict=True))
    return [found[i] for i in range(len(scores))]


def alike(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of sets of one size, as many together as are few enough numbers."""
    by_size: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        by_size.setdefault(size, []).append(place)
    for size, places in by_size.items():
        step = max(1, _NUMBERS_AT_ONCE // max(1, size))
        yield from (places[k : k + step] for k in range(0, len(places), step))


def _ends(scores: Floats, positive: NDArray[np.bool_]) -> list[Ends]:
    size = scores.shape[1]
    order = np.argsort(-scores, axis=1)
    falling = np.take_along_axis(scores, order, 1)
    ends_group = np.ones(scores.shape, dtype=bool)
    ends_group[:, :-1] = falling[:, 1:] != falling[:, :-1]
    found: Counts = np.cumsum(np.take_along_axis(positive, order, 1), axis=1, dtype=np.int64)
    accused: Counts = np.arange(1, size + 1) - found
    # Within a group of equal scores the curve stands where the last group ended: equal scores are told together.
    found, accused = (np.maximum.accumulate(np.where(ends_group, counts, 0), axis=1) for counts in (found, accused))
    found, accused = (np.pad(counts, ((0, 0), (1, 0))) for counts in (found, accused))
    defined = (found[:, -1] > 0) & (accused[:, -1] > 0) & np.isfinite(scores).all(1)
    told = np.full((len(scores), 3), np.nan)
    told[defined] = np.stack(_told(found[defined], accused[defined]), axis=1)
    return [Ends(*of_one) for of_one in told.tolist()]


def _told(found: Counts, accused: Counts) -> tuple[Floats, Floats, Floats]:
    """Return what is in :class:`Ends`, a number a curve.

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
    """Return what share is found where 1% is accused, on straight lines between thresholds, as numpy.interp does."""
    last = (accused <= _ONE_PERCENT).sum(1, keepdims=True) - 1
    (x0, x1), (y0, y1) = ([np.take_along_axis(v, last + k, 1)[:, 0] for k in (0, 1)] for v in (accused, found))
    between = (y1 - y0) / (x1 - x0) * (_ONE_PERCENT - x0) + y0
    return np.where(x0 == _ONE_PERCENT, y0, between)

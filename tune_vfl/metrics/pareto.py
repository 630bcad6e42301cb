"""Geometry of a Pareto front: non-dominated points, the knee, and the hypervolume.

Points are rows ``(utility, leakage)`` of an ``(n, 2)`` array; utility is maximized and leakage minimized. A point
dominates another when it is at least as good in both and better in one; equal points do not dominate each other, so all
of them stay. Every function refuses NaN and infinite rows with a :class:`ValueError`: a trial without objectives has no
place on a front.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Differences of distances below this are rounding: the points of a straight front count as equally far.
_TIE = 1e-12


def as_points(points: ArrayLike) -> NDArray[np.float64]:
    """Return ``points`` as a finite ``(n, 2)`` float array; an empty sequence becomes ``(0, 2)``.

    Raises:
        ValueError: for another shape, or naming the first row that is not finite.
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.size == 0:
        return np.empty((0, 2))
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"expected points of shape (n, 2) holding (utility, leakage), got shape {rows.shape}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise ValueError(
            f"row {bad[0]} is {tuple(rows[bad[0]].tolist())}: expected finite (utility, leakage); "
            "leave out trials whose outcome is not ok"
        )
    return rows


def ranks(points: ArrayLike) -> NDArray[np.int64]:
    """Sort points into fronts: rank 0 is dominated by nothing, rank r only by points of lower ranks.

    Args:
        points: ``(n, 2)``.

    Returns:
        ``(n,)`` int64. Equal points share a rank.

    Example:
        >>> from tune_vfl.metrics import ranks
        >>> ranks([(0.9, 0.5), (0.8, 0.2), (0.7, 0.4)]).tolist()
        [0, 0, 1]
    """
    rows = as_points(points)
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    distinct, where = np.unique(rows * [-1.0, 1.0], axis=0, return_inverse=True)
    # Rows are now sorted by falling utility, then rising leakage. No earlier row has less utility, so a front dominates
    # the next row exactly when the least leakage on that front is no larger. These least leakages rise with the rank,
    # so that the row's rank is found by bisection.
    least: list[float] = []
    found = np.empty(len(distinct), dtype=np.int64)
    for row, leakage in enumerate(distinct[:, 1].tolist()):
        rank = bisect_right(least, leakage)
        least[rank : rank + 1] = [leakage]
        found[row] = rank
    return found[where.reshape(-1)]


def front(points: ArrayLike) -> NDArray[np.bool_]:
    """Mark the points that nothing dominates.

    Args:
        points: ``(n, 2)``.

    Returns:
        ``(n,)`` bool; True for every one of several equal points.

    Example:
        >>> from tune_vfl.metrics import front
        >>> front([(0.9, 0.5), (0.8, 0.2), (0.7, 0.4)]).tolist()  # utility, leakage
        [True, True, False]
    """
    return np.equal(ranks(points), 0)


def knee(points: ArrayLike) -> int | None:
    """Return the front's best compromise: the point farthest from the chord between the front's ends.

    The front is first scaled to [0, 1] in both objectives. Only distance on the side of the ideal corner counts: a
    point on the other side gives up more than it gains. Where no point is on that side, the ends tie. Das, "On
    characterizing the knee of the Pareto curve", Structural Optimization 18 (1999).

    Args:
        points: ``(n, 2)``, dominated ones included.

    Returns:
        Its row; the lowest row among ties; None without points.

    Example:
        >>> from tune_vfl.metrics import knee
        >>> knee([(0.9, 0.9), (0.88, 0.3), (0.6, 0.1)])
        1
    """
    rows = as_points(points)
    on_front = np.flatnonzero(front(rows))
    if not on_front.size:
        return None
    chosen = rows[on_front]
    low, high = chosen.min(axis=0), chosen.max(axis=0)
    # Halves are subtracted, so that the difference of two huge numbers does not overflow.
    span = np.where(high > low, high / 2 - low / 2, 1.0)
    scaled = (chosen / 2 - low / 2) / span
    # The ends are (0, 0) and (1, 1): the chord is utility = leakage, and utility - leakage orders by distance from it.
    beyond = scaled[:, 0] - scaled[:, 1]
    return int(on_front[np.flatnonzero(beyond >= beyond.max() - _TIE)[0]])


def hypervolume(points: ArrayLike, reference: Sequence[float]) -> float:
    """Return the area that the points dominate, bounded by the reference point.

    Args:
        points: ``(n, 2)``; those not strictly better than the reference in both objectives add nothing.
        reference: ``(utility, leakage)`` of the worst point that counts, such as (the utility of a guess, 1).

    Returns:
        The area; 0 without points.

    Example:
        >>> from tune_vfl.metrics import hypervolume
        >>> round(hypervolume([(0.9, 0.5), (0.8, 0.2)], reference=(0.5, 1.0)), 3)
        0.29
    """
    rows, worst = as_points(points), as_points([reference])[0]
    better = rows[(rows[:, 0] > worst[0]) & (rows[:, 1] < worst[1])]
    return _area(better, worst) if len(better) else 0.0


def _area(points: NDArray[np.float64], worst: ArrayLike) -> float:
    """Return the area of points that are all better than the worst one that counts."""
    import moocore

    return float(moocore.hypervolume(points, ref=worst, maximise=[True, False]))


class GrowingFront:
    """A Pareto front updated point by point, which is faster than recomputing it.

    Args:
        reference: as for :func:`hypervolume`.
    """

    def __init__(self, reference: Sequence[float]) -> None:
        self._reference = (float(reference[0]), float(reference[1]))
        # Different points, by rising utility, and so by rising leakage.
        self._utilities: list[float] = []
        self._leakages: list[float] = []
        self._equal: Counter[tuple[float, float]] = Counter()
        self._area, self._measure = 0.0, False

    @property
    def area(self) -> float:
        """The hypervolume; it never falls, not by rounding either."""
        if self._measure:
            self._area, self._measure = max(self._area, self._measured()), False
        return self._area

    @property
    def size(self) -> int:
        """The number of points on the front; every one of several equal ones counts."""
        return self._equal.total()

    def add(self, utility: float, leakage: float) -> bool:
        """Add a point and return whether the front has grown: no point before was as good in both.

        Raises:
            ValueError: when it is not finite.
        """
        if not (math.isfinite(utility) and math.isfinite(leakage)):
            as_points([(utility, leakage)])
        place = bisect_left(self._utilities, utility)
        # Of those that are as useful or more so the next one leaks least.
        if place < len(self._utilities) and self._leakages[place] <= leakage:
            if (self._utilities[place], self._leakages[place]) == (utility, leakage):
                self._equal[utility, leakage] += 1
            return False
        first = bisect_left(self._leakages, leakage, hi=place)
        last = place + (place < len(self._utilities) and self._utilities[place] == utility)
        for gone in zip(self._utilities[first:last], self._leakages[first:last], strict=True):
            del self._equal[gone]
        self._utilities[first:last], self._leakages[first:last] = [utility], [leakage]
        self._equal[utility, leakage] = 1
        self._measure = True
        return True

    def _measured(self) -> float:
        """Return :func:`hypervolume` of a front that is known to be sorted and finite."""
        least, most = self._reference
        some = slice(bisect_right(self._utilities, least), bisect_left(self._leakages, most))
        better = np.array([self._utilities[some], self._leakages[some]]).T
        return _area(better, self._reference) if len(better) else 0.0

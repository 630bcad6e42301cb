"""Settings of a front that their seeds cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tune_vfl.statistics.arrays import Bools, Ints
from tune_vfl.statistics.fronts import Own
from tune_vfl.statistics.intervals import CONFIDENCE, Estimate


def merged(front: Sequence[int], utility: Estimate, leakage: Estimate) -> list[list[int]]:
    """Group the settings of a front that its seeds cannot tell apart.

    Args:
        front: settings, numbers of rows of the estimates.
        utility: ``(N, N)`` differences.
        leakage: ``(N, N)`` differences.

    Returns:
        Groups along the front, from the largest utility down; a setting joins the group before it while both of its
        differences from the group's first setting, the farthest one, lie within their 90% half-widths. Show a group's
        range, not its members' order.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import differences, merged
        >>> y = np.array([[0.90, 0.92, 0.91], [0.90, 0.91, 0.91], [0.70, 0.71, 0.72]])
        >>> merged([0, 1, 2], differences(y), differences(y / 2))
        [[0, 1], [2]]
    """
    same = _within(utility) & _within(leakage)
    # Any column of differences orders the settings as their means do.
    along = sorted(front, key=lambda i: (-utility.mean[i, 0], -leakage.mean[i, 0], i))
    return _groups(along, lambda first, others: same[others, first])


def merged_of_many(front: Sequence[int], utility: Own, leakage: Own) -> list[list[int]]:
    """Return :func:`merged` of thousands of settings without comparing all pairs.

    Args:
        front: settings, places in both.
        utility: of all settings.
        leakage: of the same settings, of each its worst attack's.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import merged_of_many, own_levels, worst_levels
        >>> y = np.array([[0.90, 0.92, 0.91], [0.90, 0.91, 0.91], [0.70, 0.71, 0.72]])
        >>> merged_of_many([0, 1, 2], own_levels(y), worst_levels(y[None] / 2))
        [[0, 1], [2]]
    """

    def alike(first: Ints, others: Ints) -> Bools:
        return _within(utility.less(first, others)) & _within(leakage.less(first, others))

    along = sorted(front, key=lambda i: (-utility.mean[i], -leakage.mean[i], i))
    row = np.asarray(along, dtype=np.int64)
    next_alike = alike(row[:-1], row[1:])
    return _groups(along, lambda first, others: alike(np.asarray([first]), np.asarray(others)), next_alike.tolist())


def _within(differences: Estimate) -> Bools:
    return np.asarray(np.abs(differences.mean) <= differences.half_width(CONFIDENCE))


def _groups(
    along: Sequence[int], alike: Callable[[int, Sequence[int]], Bools], next_alike: Sequence[bool] | None = None
) -> list[list[int]]:
    """Cut a row of settings at each one that differs from the first since the last cut.

    Args:
        along: the settings.
        alike: which of several settings are like one.
        next_alike: whether each is like the next one, where that is known.
    """
    groups, start = [], 0
    while start < len(along):
        end, reach = start + 1, 8
        goes_on = next_alike is None or (end < len(along) and next_alike[start])
        while goes_on and end < len(along):
            same = alike(along[start], along[end : end + reach])
            goes_on = bool(same.all())
            end += len(same) if goes_on else int(same.argmin())
            reach *= 2  # a group may be one setting, or a large part of the front
        groups.append(list(along[start:end]))
        start = end
    return groups

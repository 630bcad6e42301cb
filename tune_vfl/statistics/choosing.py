"""Choose a setting of a front: the knee on a study's fixed scale, or the most useful one below a cap of leakage.

Blocks are ``(N, S)`` utilities and ``(K, N, S)`` signed advantages of N settings with the same S seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError
from tune_vfl.statistics.arrays import Floats, finite
from tune_vfl.statistics.intervals import shrink


class Scale(NamedTuple):
    """A study's fixed scale for weighing utility against leakage.

    Attributes:
        utility_low: what needs no federation: the label party alone; the guess, where the federation gains nothing.
        utility_high: the undefended model's utility.
        leakage_high: the undefended model's leakage; its lower end is 0.

    Example:
        >>> from tune_vfl.statistics import Scale, compromise
        >>> scale = Scale(utility_low=0.7, utility_high=0.9, leakage_high=0.5)
        >>> compromise([[0.85]], [[[0.1]]], scale).round(3).tolist()  # .75 of the way in utility, .2 in leakage
        [[0.55]]
    """

    utility_low: float
    utility_high: float
    leakage_high: float


def compromise(utility: ArrayLike, x: ArrayLike, scale: Scale) -> Floats:
    """Return utility minus leakage by seed, both on the study's fixed scale: the value that a knee maximizes.

    Args:
        utility: ``(N, S)``.
        x: ``(K, N, S)``; the leakage of a setting is the advantage of its worst attack on average.
        scale: a width of 0 or less counts as 1: there is nothing to be weighed.

    Returns:
        ``(N, S)``, a block for :mod:`tune_vfl.statistics.intervals`.

    Raises:
        ShapeError, UsageError: for other shapes, or a number that is not finite.

    Example:
        >>> from tune_vfl.statistics import Scale, compromise
        >>> scale = Scale(utility_low=0.7, utility_high=0.9, leakage_high=0.5)
        >>> compromise([[0.85, 0.80]], [[[0.1, 0.1]]], scale).round(3).tolist()
        [[0.55, 0.3]]
    """
    u, advantages = finite(utility, "settings seeds", "utility"), finite(x, "attacks settings seeds", "advantages")
    if advantages.shape[1:] != u.shape:
        raise ShapeError(f"expected advantages (attacks, {u.shape[0]}, {u.shape[1]}), got shape {advantages.shape}")
    worst = advantages[advantages.mean(-1).argmax(0), np.arange(len(u))]
    gain = scale.utility_high - scale.utility_low
    balance: Floats = (u - scale.utility_low) / _width(gain) - worst / _width(scale.leakage_high)
    return balance


def knee(front: Sequence[int], utility: ArrayLike, x: ArrayLike, scale: Scale) -> int | None:
    """Return the front's best compromise, up to the noise of the seeds.

    Of the settings of the front whose :func:`compromise` is within one standard error of the largest, the one of middle
    leakage. The error is the best setting's own: what a seed does to all settings does not decide between them.

    Args:
        front: settings, numbers of rows.
        utility: ``(N, S)``.
        x: ``(K, N, S)`` signed advantages.
        scale: of the study.

    Returns:
        A setting; None for an empty front. A single seed, or setting, has no error: the largest compromise then.

    Raises:
        ShapeError, UsageError: as :func:`compromise`.

    Example:
        >>> from tune_vfl.statistics import Scale, knee
        >>> x = [[[0.5, 0.6, 0.5], [0.3, 0.2, 0.3], [0.1, 0.1, 0.0]]]  # 1 attack, 3 settings, 3 seeds
        >>> utility = [[0.90, 0.92, 0.91], [0.89, 0.91, 0.90], [0.70, 0.71, 0.72]]
        >>> knee([0, 1, 2], utility, x, Scale(utility_low=0.6, utility_high=0.92, leakage_high=0.6))
        1
    """
    balance = compromise(utility, x, scale)
    settings, seeds = balance.shape
    own = shrink(balance).own if min(settings, seeds) > 1 else np.zeros(settings)
    return middle_of_the_best(front, balance.mean(1), np.sqrt(own / seeds), worst_means(x))


def worst_means(x: ArrayLike) -> Floats:
    """Return M of every setting ``(N,)``: the largest of its attacks' means, from ``(K, N, S)``.

    Example:
        >>> from tune_vfl.statistics import worst_means
        >>> worst_means([[[0.5, 0.6], [0.3, 0.2], [0.1, 0.0]]]).round(3).tolist()  # 1 attack, 3 settings, 2 seeds
        [0.55, 0.25, 0.05]
    """
    return np.asarray(finite(x, "attacks settings seeds", "advantages").mean(-1).max(0))


def middle_of_the_best(front: Sequence[int], balance: ArrayLike, se: ArrayLike, leakage: ArrayLike) -> int | None:
    """Return the setting of median leakage among those within one standard error of the largest balance.

    Args:
        front: settings, numbers of rows.
        balance: ``(N,)``, larger is better.
        se: ``(N,)`` standard errors; that of the largest balance counts.
        leakage: ``(N,)``.

    Returns:
        A setting, of two middle ones that of less leakage; None for an empty front.
    """
    if not len(front):
        return None
    value, error, leaks = np.asarray(balance), np.asarray(se), np.asarray(leakage)
    best = max(front, key=lambda i: (value[i], -i))
    near = [i for i in front if value[i] >= value[best] - error[best]]
    return sorted(near, key=lambda i: (leaks[i], i))[(len(near) - 1) // 2]


def _width(width: float) -> float:
    return width if width > 0 else 1.0

"""Fronts of noisy points: who is on them, which points cannot be told apart, and which one to take.

A point is a setting with its utility, larger is better, and its leakage, smaller is better. Blocks are
``(N, S)`` utilities and ``(K, N, S)`` signed advantages of N settings with the same S seeds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import Bools, Floats, finite
from tune_vfl.statistics.intervals import CONFIDENCE, FEWEST_SETTINGS, Estimate, plain_differences, shrink
from tune_vfl.statistics.laws import normal_below, normal_quantile, satterthwaite, t_power

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


class Tolerances(NamedTuple):
    """Differences that nobody would choose by."""

    utility: float = 0.002
    leakage: float = 0.02

    def halved(self) -> Tolerances:
        """Half of each, for deciding which points deserve more seeds."""
        return Tolerances(self.utility / 2, self.leakage / 2)


TOLERANCES = Tolerances()


class Scale(NamedTuple):
    """The fixed scale of a study on which utility and leakage are weighed against each other.

    Attributes:
        utility_low: what needs no federation: the label party alone; the guess, where the federation gains nothing.
        utility_high: the undefended model's utility.
        leakage_high: the undefended model's leakage; its lower end is 0.
    """

    utility_low: float
    utility_high: float
    leakage_high: float


def leakage_differences(x: ArrayLike) -> Estimate:
    """Estimate differences of leakage, row minus column, between the worst attacks of both settings.

    Args:
        x: ``(K, N, S)``, S at least 2.

    Returns:
        ``(N, N)`` estimates; standard errors are those of the two attacks' blocks, or with fewer than 5 settings those
        of the difference itself.

    Raises:
        ShapeError, UsageError: for another shape, a number that is not finite, or a single seed.
    """
    advantages = finite(x, "attacks settings seeds", "advantages")
    settings, seeds = advantages.shape[1:]
    worst = advantages.mean(-1).argmax(0)
    mine = advantages[worst, np.arange(settings)]
    if settings < FEWEST_SETTINGS:
        return plain_differences(mine)
    blocks = [shrink(block) for block in advantages]
    own = np.stack([b.own for b in blocks])[worst, np.arange(settings)]
    one, other, df = own[:, None], own[None, :], blocks[0].own_df
    mean = mine.mean(1)
    return Estimate(
        mean[:, None] - mean[None, :], np.sqrt((one + other) / seeds), satterthwaite((one, other), (df, df))
    )


def dominance(utility: Estimate, leakage: Estimate, tolerances: Tolerances = TOLERANCES) -> Floats:
    """Return the chance that one setting is better than another in both, by more than the tolerances.

    Args:
        utility: ``(N, N)`` differences, row minus column.
        leakage: ``(N, N)`` differences, row minus column.
        tolerances: differences that do not count.

    Returns:
        ``(N, N)``: column over row; 0 on the diagonal.
    """
    better = _chance(utility.mean.T - tolerances.utility, utility.se)
    safer = _chance(leakage.mean - tolerances.leakage, leakage.se)
    chances: Floats = better * safer
    np.fill_diagonal(chances, 0.0)
    return chances


def membership(chances: ArrayLike) -> Floats:
    """Return the chance of each setting to be on the front, ``1 - max`` of its row of :func:`dominance`.

    Conservative: it takes the strongest challenger only, and does not shrink differences. In simulations with 10 seeds
    settings of .2, .4, .6 and .8 were on the front in .33, .58, .81 and .93 of all cases.

    Args:
        chances: ``(N, N)``.

    Returns:
        ``(N,)`` in [0, 1].
    """
    return np.asarray(1 - finite(chances, "settings settings", "chances").max(1))


def candidates(member: ArrayLike, front: ArrayLike, trials: int) -> list[int]:
    """Return what a confirmation starts from: the front, then its likeliest neighbors.

    Args:
        member: ``(N,)`` from :func:`membership`.
        front: ``(N,)`` bool, the front of the means.
        trials: of the search; below 60 five neighbors are taken, else ten.

    Returns:
        Settings: those of the front by number, then at most 5 or 10 others by falling chance, each above 0.
    """
    chances, on_front = finite(member, "settings", "chances"), np.asarray(front, dtype=bool)
    _same(chances, on_front, "chances and front")
    others = sorted(np.flatnonzero(~on_front & (chances > 0)).tolist(), key=lambda i: (-chances[i], i))
    return [*np.flatnonzero(on_front).tolist(), *others[: 5 if trials < 60 else 10]]


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
    """
    same = (np.abs(utility.mean) <= utility.half_width(CONFIDENCE)) & (
        np.abs(leakage.mean) <= leakage.half_width(CONFIDENCE)
    )
    groups: list[list[int]] = []
    # Any column of differences orders the settings as their means do.
    for setting in sorted(front, key=lambda i: (-utility.mean[i, 0], -leakage.mean[i, 0], i)):
        if groups and same[setting, groups[-1][0]]:
            groups[-1].append(setting)
        else:
            groups.append([setting])
    return groups


def compromise(utility: ArrayLike, x: ArrayLike, scale: Scale) -> Floats:
    """Return utility minus leakage by seed, both on the study's fixed scale: what a knee makes large.

    Args:
        utility: ``(N, S)``.
        x: ``(K, N, S)``; the leakage of a setting is the advantage of its worst attack on average.
        scale: a width of 0 or less counts as 1: there is nothing to be weighed.

    Returns:
        ``(N, S)``, a block for :mod:`tune_vfl.statistics.intervals`.

    Raises:
        ShapeError, UsageError: for other shapes, or a number that is not finite.
    """
    u, advantages = finite(utility, "settings seeds", "utility"), finite(x, "attacks settings seeds", "advantages")
    if advantages.shape[1:] != u.shape:
        raise ShapeError(f"expected advantages (attacks, {u.shape[0]}, {u.shape[1]}), got shape {advantages.shape}")
    worst = advantages[advantages.mean(-1).argmax(0), np.arange(len(u))]
    gain = scale.utility_high - scale.utility_low
    balance: Floats = (u - scale.utility_low) / _width(gain) - worst / _width(scale.leakage_high)
    return balance


def knee(front: Sequence[int], balance: ArrayLike, se: ArrayLike, leakage: ArrayLike) -> int | None:
    """Return the front's best compromise that its noise can tell.

    Of the settings of the front whose compromise is within one standard error of the largest, the one of middle
    leakage (the lower of two middle ones). The plain maximum jumps between settings that are equally good.

    Args:
        front: settings, numbers of rows.
        balance: ``(N,)`` means of :func:`compromise`.
        se: ``(N, N)`` standard errors of the differences of these; zeros with a single seed.
        leakage: ``(N,)``.

    Returns:
        A setting; None for an empty front.
    """
    if not len(front):
        return None
    value, spread, leaks = np.asarray(balance), np.asarray(se), np.asarray(leakage)
    best = max(front, key=lambda i: (value[i], -i))
    near = [i for i in front if value[i] >= value[best] - spread[best, i]]
    return sorted(near, key=lambda i: (leaks[i], i))[(len(near) - 1) // 2]


def export_choice(utility: ArrayLike, upper_90: ArrayLike, cap: float) -> int | None:
    """Return the most useful of the settings whose leakage is below a cap with 90% confidence.

    Args:
        utility: ``(N,)``.
        upper_90: ``(N,)`` one-sided bounds from :func:`tune_vfl.statistics.leakage.bounds`, best on fresh seeds.
        cap: the condition ``leakage <= cap``.

    Returns:
        A setting, the first among equals; None where no bound is below the cap.
    """
    u, bound = finite(utility, "settings", "utility"), finite(upper_90, "settings", "bounds")
    _same(u, bound, "utility and bounds")
    meeting: Bools = bound <= cap
    return int(np.where(meeting, u, -np.inf).argmax()) if meeting.any() else None


def seeds_to_separate(
    difference: float, sd: float, rho: float, *, confidence: float = CONFIDENCE, power: float = 0.8, most: int = 10_000
) -> int | None:
    """Return how many seeds tell two settings apart, about ``12.4 (1 - rho) sd² / difference²``.

    Args:
        difference: between the two, not 0.
        sd: standard deviation of a setting between seeds.
        rho: the share of its variance that a seed gives to all settings, below 1.
        confidence: of the two-sided interval of the difference, on shrunk variances.
        power: the chance that it does not contain 0.
        most: where to give up.

    Returns:
        At least 2; None where ``most`` do not suffice.

    Raises:
        UsageError: for a difference of 0, a negative deviation, or a rho of 1 and more.
    """
    if difference == 0 or sd < 0 or not 0 <= rho < 1:
        raise UsageError(f"no number of seeds separates a difference of {difference} with sd {sd} and rho {rho}")
    if sd == 0:
        return 2
    shift, tail = abs(difference) / (sd * math.sqrt(2 * (1 - rho))), (1 + confidence) / 2

    def enough(seeds: int) -> bool:
        # Two shrunk variances of S - 1 + 2 degrees of freedom each.
        return t_power(shift * math.sqrt(seeds), 2 * (seeds + 1), tail) >= power

    low = max(2, int(((normal_quantile(tail) + normal_quantile(power)) / shift) ** 2) - 2)
    return next((s for s in range(low, min(low + 20, most + 1)) if enough(s)), None)


def _chance(gain: Floats, se: Floats) -> Floats:
    # Without spread a gain is certain, or certainly none.
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(se > 0, gain / se, np.where(gain == 0, 0.0, np.copysign(np.inf, gain)))
    return normal_below(z)


def _width(width: float) -> float:
    return width if width > 0 else 1.0


def _same(one: Floats, other: Floats | Bools, what: str) -> None:
    if one.shape != other.shape:
        raise ShapeError(f"{what}: one for each setting, got {one.shape} and {other.shape}")

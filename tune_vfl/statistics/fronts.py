"""Fronts of noisy points: who is on them, and which points cannot be told apart.

A point is a setting with its utility, larger is better, and its leakage, smaller is better. Blocks are
``(N, S)`` utilities and ``(K, N, S)`` signed advantages of N settings with the same S seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tune_vfl.errors import ShapeError
from tune_vfl.statistics.arrays import Floats, Ints, finite
from tune_vfl.statistics.intervals import CONFIDENCE, FEWEST_SETTINGS, Estimate, plain_differences, shrink
from tune_vfl.statistics.laws import normal_below, satterthwaite

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

_FIRST_LOOK = 64
"""With how many settings of the front all are compared before any pairs are."""

_ROWS = 256
"""How many settings are compared with all others at a time: what stays in a core's cache."""


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
    settings = advantages.shape[1]
    if settings < FEWEST_SETTINGS:
        return plain_differences(advantages[advantages.mean(-1).argmax(0), np.arange(settings)])
    return worst_levels(advantages).pairs()


class Own(NamedTuple):
    """Settings without what a seed does to all of them, which cancels between any two.

    Attributes:
        mean: ``(N,)``.
        variance: ``(N,)`` of the means.
        df: degrees of freedom of each variance.
    """

    mean: Floats
    variance: Floats
    df: float

    def pairs(self) -> Estimate:
        """Return the differences ``(N, N)``, row minus column."""
        one, other = self.variance[:, None], self.variance[None, :]
        df = satterthwaite((one, other), (self.df, self.df))
        return Estimate(self.mean[:, None] - self.mean[None, :], np.sqrt(one + other), df)

    def of(self, settings: Sequence[int]) -> Own:
        """Return some of the settings, with the variances that all of them gave."""
        chosen = list(settings)
        return Own(self.mean[chosen], self.variance[chosen], self.df)


def own_levels(y: ArrayLike) -> Own:
    """Return the own part of ``(N, S)`` numbers, N and S at least 2."""
    block = shrink(y)
    return Own(block.mean, block.own / block.seeds, block.own_df)


def worst_levels(x: ArrayLike) -> Own:
    """Return the own part of each setting's worst attack, from ``(K, N, S)`` advantages, N and S at least 2."""
    advantages = finite(x, "attacks settings seeds", "advantages")
    worst, settings = advantages.mean(-1).argmax(0), np.arange(advantages.shape[1])
    blocks = [shrink(block) for block in advantages]
    own = np.stack([b.own for b in blocks])[worst, settings]
    mean = np.stack([b.mean for b in blocks])[worst, settings]
    return Own(mean, own / blocks[0].seeds, blocks[0].own_df)


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

    Conservative, because differences are not shrunk. In simulations with 10 seeds, of settings near .2, .4, .6 and .8
    no other one was truly better in .37, .63, .82 and .93 of all cases (``python -m benchmarks.coverage fronts``).

    Args:
        chances: ``(N, N)``.

    Returns:
        ``(N,)`` in [0, 1].
    """
    return np.asarray(1 - finite(chances, "settings settings", "chances").max(1))


def membership_of_many(front: ArrayLike, utility: Own, leakage: Own, least: float = 0.03) -> Floats:
    """Return :func:`membership` of thousands of settings without comparing every one with every other.

    All are compared with some of the front first, which bounds their chance from above. Those that may have at least
    ``least`` are then compared with each other.

    Args:
        front: ``(N,)`` bool, the front of the means.
        utility: of N settings.
        leakage: of the same settings, of each its worst attack's.
        least: a chance below it is only known to be below it.

    Returns:
        ``(N,)``; where another setting that is far from the front would alone have pressed it down, too large by
        ``least`` at most.
    """
    on_front = np.flatnonzero(front)
    along = on_front[np.argsort(utility.mean[on_front], kind="stable")]
    some = along[np.unique(np.linspace(0, len(along) - 1, _FIRST_LOOK).astype(np.int64))]
    everyone = np.arange(len(utility.mean))
    chances = _not_dominated(everyone, some, utility, leakage)
    near = np.flatnonzero(chances >= least)
    chances[near] = np.minimum(chances[near], _not_dominated(near, near, utility, leakage))
    return chances


def _not_dominated(rows: Ints, columns: Ints, utility: Own, leakage: Own) -> Floats:
    """Return for each row the chance that the column which most likely dominates it does not."""
    found = np.ones(len(rows))
    for start in range(0, len(rows), _ROWS):
        mine = rows[start : start + _ROWS]
        better = _ahead(utility.mean[columns] - TOLERANCES.utility, utility, mine, columns, sign=1)
        better *= _ahead(leakage.mean[columns] + TOLERANCES.leakage, leakage, mine, columns, sign=-1)
        better[mine[:, None] == columns[None, :]] = 0.0
        found[start : start + _ROWS] = 1 - better.max(1)
    return found


def _ahead(theirs: Floats, own: Own, rows: Ints, columns: Ints, sign: int) -> Floats:
    gain = sign * (theirs[None, :] - own.mean[rows][:, None])
    return _chance(gain, np.sqrt(own.variance[rows][:, None] + own.variance[columns][None, :]))


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
    if on_front.shape != chances.shape:
        raise ShapeError(f"chances and front: one for each setting, got {chances.shape} and {on_front.shape}")
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


def _chance(gain: Floats, se: Floats) -> Floats:
    # Without spread a gain is certain, or certainly none.
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(se > 0, gain / se, np.where(gain == 0, 0.0, np.copysign(np.inf, gain)))
    return normal_below(z)

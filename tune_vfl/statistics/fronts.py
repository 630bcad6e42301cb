"""Pareto fronts of noisy points, with the probability that each point is on the front.

A point is a setting with its utility, larger is better, and its leakage, smaller is better. Blocks are
``(N, S)`` utilities and ``(K, N, S)`` signed advantages of N settings with the same S seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError
from tune_vfl.statistics.arrays import Floats, Ints, finite
from tune_vfl.statistics.intervals import FEWEST_SETTINGS, Estimate, plain_differences, shrink
from tune_vfl.statistics.laws import normal_below, normal_quantile, satterthwaite


class Tolerances(NamedTuple):
    """Differences too small to matter for a choice.

    Example:
        >>> from tune_vfl.statistics import Tolerances
        >>> Tolerances(utility=0.01)
        Tolerances(utility=0.01, leakage=0.02)
    """

    utility: float = 0.002
    leakage: float = 0.02

    def halved(self) -> Tolerances:
        """Half of each tolerance, for deciding which points deserve more seeds."""
        return Tolerances(self.utility / 2, self.leakage / 2)


TOLERANCES = Tolerances()

_FIRST_LOOK = 64
"""With how many settings of the front all are compared before any pairs are."""

_ROWS = 256
"""Number of settings compared with all others at a time, so that they stay in a core's cache."""

_NOTHING = -8.3
"""A normal quantile whose chance is lost when it is taken from 1."""


def leakage_differences(x: ArrayLike) -> Estimate:
    """Estimate differences of leakage, row minus column, between the worst attacks of both settings.

    Args:
        x: ``(K, N, S)``, S at least 2.

    Returns:
        ``(N, N)`` estimates; standard errors are those of the two attacks' blocks, or with fewer than 5 settings those
        of the difference itself.

    Raises:
        ShapeError, UsageError: for another shape, a number that is not finite, or a single seed.

    Example:
        >>> from tune_vfl.statistics import leakage_differences
        >>> x = [[[0.5, 0.6, 0.5], [0.3, 0.2, 0.3], [0.1, 0.1, 0.0]]]  # 1 attack, 3 settings, 3 seeds
        >>> leakage_differences(x).mean.round(3)[0].tolist()
        [0.0, 0.267, 0.467]
    """
    advantages = finite(x, "attacks settings seeds", "advantages")
    settings = advantages.shape[1]
    if settings < FEWEST_SETTINGS:
        return plain_differences(advantages[advantages.mean(-1).argmax(0), np.arange(settings)])
    return worst_levels(advantages).pairs()


class Own(NamedTuple):
    """Settings' own levels, without the seed effects that all settings share, which cancel in differences.

    Attributes:
        mean: ``(N,)``.
        variance: ``(N,)`` of the means.
        df: degrees of freedom of each variance.

    Example:
        >>> from tune_vfl.statistics import Own, own_levels
        >>> own_levels([[0.90, 0.92], [0.80, 0.82]]).mean.round(3).tolist()
        [0.91, 0.81]
    """

    mean: Floats
    variance: Floats
    df: float

    def pairs(self) -> Estimate:
        """Return the differences ``(N, N)``, row minus column."""
        every = np.arange(len(self.mean))
        return self.less(every[:, None], every[None, :])

    def less(self, settings: Ints, others: Ints) -> Estimate:
        """Return the differences between settings and others; indices broadcast."""
        one, other = self.variance[settings], self.variance[others]
        df = satterthwaite((one, other), (self.df, self.df))
        return Estimate(self.mean[settings] - self.mean[others], np.sqrt(one + other), df)


def own_levels(y: ArrayLike) -> Own:
    """Return the own levels of ``(N, S)`` numbers, N and S at least 2.

    Example:
        >>> from tune_vfl.statistics import own_levels
        >>> own_levels([[0.90, 0.92], [0.80, 0.82]]).variance.round(6).tolist()  # both moved alike
        [0.0, 0.0]
    """
    block = shrink(y)
    return Own(block.mean, block.own / block.seeds, block.own_df)


def worst_levels(x: ArrayLike) -> Own:
    """Return the own level of each setting's worst attack, from ``(K, N, S)`` advantages, N and S at least 2.

    Example:
        >>> from tune_vfl.statistics import worst_levels
        >>> worst_levels([[[0.5, 0.6], [0.3, 0.2], [0.1, 0.0]]]).mean.round(3).tolist()  # 1 attack, 3 settings, 2 seeds
        [0.55, 0.25, 0.05]
    """
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

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import differences, dominance
        >>> y = np.array([[0.90, 0.92, 0.91], [0.85, 0.88, 0.86], [0.80, 0.81, 0.82]])  # three settings, three seeds
        >>> dominance(differences(y), differences(1 - y)).round(2)[1].tolist()  # the first one is better in both
        [1.0, 0.0, 0.0]
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

    Example:
        >>> from tune_vfl.statistics import membership
        >>> membership([[0.0, 0.9], [0.1, 0.0]]).round(3).tolist()  # the first one is probably dominated
        [0.1, 0.9]
    """
    return np.asarray(1 - finite(chances, "settings settings", "chances").max(1))


def membership_of_many(front: ArrayLike, utility: Own, leakage: Own, least: float = 0.03) -> Floats:
    """Return :func:`membership` of thousands of settings without comparing all pairs.

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

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import membership_of_many, own_levels, worst_levels
        >>> y = np.array([[0.90, 0.92, 0.91], [0.85, 0.88, 0.86], [0.80, 0.81, 0.82]])  # three settings, three seeds
        >>> membership_of_many([True, False, False], own_levels(y), worst_levels(1 - y[None])).round(2).tolist()
        [1.0, 0.0, 0.0]
    """
    on_front = np.flatnonzero(front)
    along = on_front[np.argsort(utility.mean[on_front], kind="stable")]
    some = along[np.unique(np.linspace(0, len(along) - 1, _FIRST_LOOK).astype(np.int64))]
    everyone = np.arange(len(utility.mean))
    chances = _not_dominated(everyone, some, utility, leakage)
    near = np.flatnonzero(chances >= least)
    chances[near] = _not_dominated(near, near, utility, leakage, chances[near])
    return chances


def _not_dominated(rows: Ints, columns: Ints, utility: Own, leakage: Own, known: Floats | None = None) -> Floats:
    """Return for each row the chance that its likeliest dominating column does not dominate it.

    Where an upper bound of each row's is known, only columns that may lower it are computed.
    """
    found = np.ones(len(rows)) if known is None else known.copy()
    # A product of two chances is no larger than either: both must reach what is known.
    least = np.full(len(rows), -np.inf) if known is None else np.maximum(normal_quantile(1 - known), _NOTHING)
    useful = utility.mean[rows] + _reach(utility, rows, columns, TOLERANCES.utility, least)
    safe = leakage.mean[rows] - _reach(leakage, rows, columns, TOLERANCES.leakage, least)
    u, x = utility.mean[columns], leakage.mean[columns]
    for start in range(0, len(rows), _ROWS):
        part = slice(start, start + _ROWS)
        pairs = (u[None, :] >= useful[part, None]) & (x[None, :] <= safe[part, None])
        pairs &= rows[part, None] != columns[None, :]
        row, column = np.nonzero(pairs)
        if len(row):
            mine, theirs = rows[part][row], columns[column]
            better = _ahead(u[column] - TOLERANCES.utility, utility, mine, theirs, sign=1)
            better *= _ahead(x[column] + TOLERANCES.leakage, leakage, mine, theirs, sign=-1)
            np.minimum.at(found, start + row, 1 - better)
    return found


def _reach(own: Own, rows: Ints, columns: Ints, tolerance: float, least: Floats) -> Floats:
    """Return the margin by which a column must exceed each row at a normal quantile of ``least``."""
    if np.isneginf(least).all():
        return least
    # No pair's error is larger than that with the column of the largest variance; 1e-9 is left for rounding.
    widest = np.sqrt(own.variance[rows] + own.variance[columns].max())
    narrowest = np.sqrt(own.variance[rows] + own.variance[columns].min())
    return np.asarray(tolerance + np.where(least < 0, least * widest, least * narrowest) - 1e-9)


def _ahead(theirs: Floats, own: Own, mine: Ints, others: Ints, sign: int) -> Floats:
    return _chance(sign * (theirs - own.mean[mine]), np.sqrt(own.variance[mine] + own.variance[others]))


def candidates(member: ArrayLike, front: ArrayLike, trials: int) -> list[int]:
    """Return the settings that a confirmation starts with: the front, then its likeliest neighbors.

    Args:
        member: ``(N,)`` from :func:`membership`.
        front: ``(N,)`` bool, the front of the means.
        trials: of the search; below 60 five neighbors are taken, else ten.

    Returns:
        Settings: those of the front by number, then at most 5 or 10 others by falling chance, each above 0.

    Example:
        >>> from tune_vfl.statistics import candidates
        >>> candidates([0.9, 0.8, 0.3, 0.0], front=[True, True, False, False], trials=40)
        [0, 1, 2]
    """
    chances, on_front = finite(member, "settings", "chances"), np.asarray(front, dtype=bool)
    if on_front.shape != chances.shape:
        raise ShapeError(f"chances and front: one for each setting, got {chances.shape} and {on_front.shape}")
    others = sorted(np.flatnonzero(~on_front & (chances > 0)).tolist(), key=lambda i: (-chances[i], i))
    return [*np.flatnonzero(on_front).tolist(), *others[: 5 if trials < 60 else 10]]


def _chance(gain: Floats, se: Floats) -> Floats:
    # Without spread a gain is certain, or certainly none.
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(se > 0, gain / se, np.where(gain == 0, 0.0, np.copysign(np.inf, gain)))
    return normal_below(z)

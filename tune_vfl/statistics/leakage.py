"""Leakage: the largest advantage of several attacks, and bounds on it.

Advantages are signed. ``x`` is ``(K, S)``: K attacks (or variants) on one setting, S seeds. Larger leaks more.

* M, the largest mean: an attacker that commits to the attack that is best on average. Too large by what the best of
  several noisy means is too large; it is what a search minimizes, because C's noise would be selected.
* C, cross-selected: M's question, with each seed scored by the attack that the other seeds choose. No upward bias;
  the number that a confirmation reports.
* W, the mean over seeds of the largest: an attacker that knows which attack works here.

The largest of the S values themselves is only about their S/(S+1) quantile: worth showing, no bound on anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import Bools, Floats, Ints, finite
from tune_vfl.statistics.intervals import FEWEST_SETTINGS, PRIOR, Estimate, levels, undecided
from tune_vfl.statistics.laws import normal_quantile, t_quantile

TAIL = 0.05
"""Tail probability at each end of the 90% interval."""

TAIL_OF_EXPORT = 0.1
"""Tail probability of the one-sided bound by which a setting is exported."""


class Limits(NamedTuple):
    """Limits on the bounds of K attacks on N settings that do not come from the spread over seeds.

    Attributes:
        noise: ``(K, N)`` the standard deviation that the mean advantage has where there is nothing to find, from
            permuted labels or untrained models; 0 where that is not known. Three seeds of a skewed law agree by chance
            more often than Student's t allows for: a mean that noise of this size explains has its lower end at 0, and
            where there are too few settings to learn from, noise says how far a seed usually moves one.
        narrow: ``(K, N)`` whether less than .1 is left above the floor, see
            :func:`tune_vfl.statistics.advantages.narrow`. Nothing says then that an advantage is small: the upper end
            is 1.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import Limits, leakage_bounds
        >>> x = [[[0.5, 0.6, 0.5], [0.3, 0.2, 0.3], [0.1, 0.1, 0.0]]]  # 1 attack, 3 settings, 3 seeds
        >>> known = Limits(noise=np.full((1, 3), 0.05), narrow=np.zeros((1, 3), dtype=bool))
        >>> [round(bound.upper, 2) for bound in leakage_bounds(x, known)]
        [0.66, 0.39, 0.19]
    """

    noise: Floats
    narrow: Bools

    @classmethod
    def none(cls, attacks: int, settings: int) -> Limits:
        """Return no limits."""
        return cls(np.zeros((attacks, settings)), np.zeros((attacks, settings), dtype=bool))

    def of(self, attacks: Sequence[int], settings: ArrayLike) -> Limits:
        """Return the limits of selected attacks on selected settings, by index."""
        where = np.ix_(np.asarray(attacks, dtype=np.int64), np.asarray(settings, dtype=np.int64))
        return Limits(self.noise[where], self.narrow[where])


def worst_attack(x: ArrayLike) -> int:
    """Return the attack with the largest mean; the first among equals.

    Example:
        >>> from tune_vfl.statistics import worst_attack
        >>> worst_attack([[0.1, 0.2, 0.3], [0.4, 0.0, 0.5]])  # 2 attacks, 3 seeds
        1
    """
    return int(finite(x, "attacks seeds", "advantages").mean(1).argmax())


def mean_of_maxima(x: ArrayLike) -> float:
    """W (``leakage_worst_seed``): the mean over seeds of the largest advantage at each seed; never below M.

    Example:
        >>> from tune_vfl.statistics import mean_of_maxima
        >>> round(mean_of_maxima([[0.1, 0.2, 0.3], [0.4, 0.0, 0.5]]), 3)  # 2 attacks, 3 seeds
        0.367
    """
    return float(finite(x, "attacks seeds", "advantages").max(0).mean())


def means_of_maxima(x: ArrayLike) -> Floats:
    """W of many settings, from ``(K, N, S)``: ``(N,)``.

    Example:
        >>> from tune_vfl.statistics import means_of_maxima
        >>> means_of_maxima([[[0.5, 0.6], [0.3, 0.2], [0.1, 0.0]]]).round(3).tolist()  # 1 attack, 3 settings, 2 seeds
        [0.55, 0.25, 0.05]
    """
    return np.asarray(finite(x, "attacks settings seeds", "advantages").max(0).mean(1))


def chosen_attacks(x: ArrayLike, earlier: ArrayLike | None = None) -> Ints:
    """Return, for each seed, the attack that is best on average over all other seeds.

    Args:
        x: ``(K, S)`` advantages on the seeds to score.
        earlier: ``(K, S0)`` advantages of the same attacks on seeds that may choose and are not scored: those of the
            search. None: only the other seeds of ``x`` choose.

    Returns:
        ``(S,)`` attacks; the first among equals, so that a copy behind an attack changes nothing.

    Raises:
        ShapeError, UsageError: for other shapes, a number that is not finite, or a seed that no other one chooses for.

    Example:
        >>> from tune_vfl.statistics import chosen_attacks
        >>> chosen_attacks([[0.1, 0.2, 0.3], [0.4, 0.0, 0.5]]).tolist()  # 2 attacks, 3 seeds
        [0, 1, 1]
    """
    scored = finite(x, "attacks seeds", "advantages")
    total = scored.sum(1, keepdims=True) - scored
    if earlier is not None:
        before = finite(earlier, "attacks seeds", "advantages of the search")
        if len(before) != len(scored):
            raise ShapeError(f"advantages: {len(scored)} attacks, and {len(before)} in the search")
        total = total + before.sum(1, keepdims=True)
    elif scored.shape[1] < 2:
        raise UsageError("advantages: with a single seed no other one can choose the attack")
    # Sums choose as means do. Equal attacks must stay equal where their sums were rounded in another order.
    return np.asarray(np.argmax(total >= total.max(0) - 1e-12 * (1 + np.abs(total).max(0)), axis=0), dtype=np.int64)


def cross_selected(x: ArrayLike, earlier: ArrayLike | None = None) -> float:
    """C: the mean over seeds of the advantage of the attack that the other seeds choose.

    Arguments and errors as for :func:`chosen_attacks`; with ``earlier`` it is the number of a confirmation.

    Returns:
        Signed, never above W. On noise its mean is 0, where that of M is not.

    Example:
        >>> from tune_vfl.statistics import cross_selected
        >>> round(cross_selected([[0.1, 0.2, 0.3], [0.4, 0.0, 0.5]]), 3)  # 2 attacks, 3 seeds
        0.2
    """
    chosen = chosen_attacks(x, earlier)
    scored = finite(x, "attacks seeds", "advantages")
    return float(scored[chosen, np.arange(scored.shape[1])].mean())


class Bounds(NamedTuple):
    """Confidence bounds of one setting's leakage, in [0, 1].

    Attributes:
        lower: lower end of the 90% interval.
        upper: U, its upper end: that of the attack whose own is largest. It needs no correction for many attacks,
            because the leakage is above it only if its own attack is.
        upper_90: the one-sided 90% bound, by which settings are exported.
        contenders: ``(K,)`` the attacks that may be the worst one.

    Example:
        >>> from tune_vfl.statistics import Bounds, bounds
        >>> bounds(mean=[0.1, 0.4], se=[0.02, 0.05], df=[9, 9]).contenders.tolist()
        [False, True]
    """

    lower: float
    upper: float
    upper_90: float
    contenders: Bools

    @property
    def undecided(self) -> bool:
        """Whether half of the interval is more than .25: no recommendation."""
        return undecided(self.lower, self.upper)


def bounds(mean: ArrayLike, se: ArrayLike, df: ArrayLike) -> Bounds:
    """Bound the largest of K true advantages.

    Args:
        mean: ``(K,)`` signed.
        se: ``(K,)`` standard errors, from :mod:`tune_vfl.statistics.intervals`.
        df: ``(K,)`` degrees of freedom.

    Raises:
        ShapeError, UsageError: for other shapes, or a number that is not finite.

    Example:
        >>> from tune_vfl.statistics import bounds
        >>> round(bounds(mean=[0.1, 0.4], se=[0.02, 0.05], df=[9, 9]).upper, 3)
        0.492
    """
    m, spread, freedom = (finite(a, "attacks", "estimates") for a in (mean, se, df))
    if not m.shape == spread.shape == freedom.shape:
        raise ShapeError(f"estimates: one number an attack each, got {len(m)}, {len(spread)} and {len(freedom)}")
    return _bounds(Estimate(m[:, None], spread[:, None], freedom[:, None]), Limits.none(len(m), 1))[0]


def leakage_bounds(x: ArrayLike, limits: Limits | None = None) -> list[Bounds]:
    """Bound the leakage of every setting of a block.

    Args:
        x: ``(K, N, S)`` signed advantages of K attacks on N settings with the same S seeds. Each attack is a block of
            its own, shrunk over the settings.
        limits: what is known beside the seeds.

    Returns:
        N bounds, in the order of the settings.

    Raises:
        ShapeError, UsageError: for another shape, a number that is not finite, or a single seed.

    Example:
        >>> from tune_vfl.statistics import leakage_bounds
        >>> [round(bound.upper, 2) for bound in leakage_bounds([[[0.5, 0.6], [0.3, 0.2], [0.1, 0.0]]])]
        [0.87, 0.57, 0.37]
    """
    return _bounds(*_estimates(x, limits))


def upper_bounds(x: ArrayLike, confidence: float, limits: Limits | None = None) -> Floats:
    """Return upper confidence bounds of each setting's leakage: :attr:`Bounds.upper_90` at another confidence.

    Args:
        x: ``(K, N, S)`` signed advantages, or successes, of K attacks on N settings with the same S seeds.
        confidence: one-sided, in (0, 1).
        limits: what is known beside the seeds; successes have none.

    Returns:
        ``(N,)`` in [0, 1]; with more attacks never less.

    Raises:
        ShapeError, UsageError: as :func:`leakage_bounds`.

    Example:
        >>> from tune_vfl.statistics import upper_bounds
        >>> upper_bounds([[[0.5, 0.6], [0.3, 0.2], [0.1, 0.0]]], confidence=0.9).round(2).tolist()
        [0.7, 0.4, 0.2]
    """
    (mean, se, df), held = _estimates(x, limits)
    high = mean + t_quantile(confidence, df) * se
    return clipped(np.where(held.narrow, 1.0, high).max(0))


def _estimates(x: ArrayLike, limits: Limits | None) -> tuple[Estimate, Limits]:
    """Return estimates ``(K, N)``, each attack a block of its own, and the limits; no limits by default."""
    blocks = finite(x, "attacks settings seeds", "advantages")
    mean, se, df = (np.stack(columns) for columns in zip(*(levels(block) for block in blocks), strict=True))
    held = Limits.none(*mean.shape) if limits is None else limits
    if mean.shape[1] < FEWEST_SETTINGS:
        # No other settings say what is usual for a seed; noise does, and three seeds that agree by chance do not.
        usual = np.sqrt((PRIOR * held.noise**2 + df * se**2) / (PRIOR + df))
        se = np.maximum(se, usual)
    return Estimate(mean, se, df), held


def _bounds(estimate: Estimate, limits: Limits) -> list[Bounds]:
    """Return the bounds of each column of ``(K, N)`` estimates."""
    mean, se, df = estimate
    half = t_quantile(1 - TAIL, df) * se
    high, surely = np.where(limits.narrow, np.maximum(mean, 1.0), mean + half), (mean - half).max(0)
    contenders = high >= surely
    # Each of several contenders may be lifted above the truth by chance: they share one tail.
    tail = TAIL / contenders.sum(0)
    low = mean - t_quantile(1 - tail, df) * se
    explained = mean <= normal_quantile(1 - tail) * limits.noise
    low = np.where(explained, np.minimum(low, 0.0), low).max(0)
    export = np.where(limits.narrow, 1.0, mean + t_quantile(1 - TAIL_OF_EXPORT, df) * se).max(0)
    ends = np.clip(np.stack([low, high.max(0), export], axis=1), 0.0, 1.0)
    return [Bounds(a, b, c, who) for (a, b, c), who in zip(ends.tolist(), contenders.T, strict=True)]


def clipped(advantage: ArrayLike) -> Floats:
    """Return advantages clipped to [0, 1] for display.

    Example:
        >>> from tune_vfl.statistics import clipped
        >>> clipped([-0.1, 0.4]).tolist()
        [0.0, 0.4]
    """
    return np.clip(np.asarray(advantage, dtype=np.float64), 0.0, 1.0)

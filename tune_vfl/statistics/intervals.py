"""Intervals of settings that share their seeds, from few seeds: Student's t on shrunk variances.

Three seeds say little about one setting's own spread, but all settings of a study together say much about what is
usual. Each setting's variance is drawn toward their mean as two seeds' worth of prior would draw it, which gives t two
more degrees of freedom (moderated t: Smyth 2004). What a seed does to all settings alike cancels in differences and
stays in levels; pooling settings cannot shrink it, more seeds of the undefended model can.

A block is ``(N, S)``: N settings, the same S seeds for all. Numbers are utilities or signed advantages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import Floats, finite, seeds_of
from tune_vfl.statistics.laws import normal_quantile, satterthwaite, t_quantile

CONFIDENCE = 0.9
FEWEST_SETTINGS = 5
"""With fewer settings there is nothing to learn a usual variance from: each goes by its own."""

PRIOR = 2
"""Prior degrees of freedom of the mean variance of all settings."""

WIDEST = 0.25
"""An advantage whose half-width is larger is undecided: nothing is recommended by it."""


class Estimate(NamedTuple):
    """Estimates with standard errors and degrees of freedom; the three have one shape, ``(N,)`` or another.

    Attributes:
        mean: the estimates.
        se: their standard errors over seeds.
        df: the degrees of freedom of these.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import Estimate
        >>> one = Estimate(mean=np.array([0.9]), se=np.array([0.01]), df=np.array([9.0]))
        >>> one.half_width().round(3).tolist()  # of the 90% interval
        [0.018]
    """

    mean: Floats
    se: Floats
    df: Floats

    def half_width(self, confidence: float = CONFIDENCE, rows: ArrayLike = 0.0) -> Floats:
        """Return half of the two-sided interval's width.

        Args:
            confidence: in (0, 1).
            rows: the variance to add for other test rows of the source: ``f V`` with V from
                :mod:`tune_vfl.statistics.rows`, a mean over the seeds, and f = 1 where all seeds share their test rows,
                else the rows tested over all rows (the rest is in the spread over seeds already). 0: "this data set".
        """
        tail = (1 + confidence) / 2
        over_seeds = t_quantile(tail, self.df) * self.se
        return np.asarray(np.hypot(over_seeds, normal_quantile(tail) * np.sqrt(np.asarray(rows, dtype=np.float64))))

    def interval(self, confidence: float = CONFIDENCE, rows: ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Return the two ends, not clipped; arguments as for :meth:`half_width`."""
        half = self.half_width(confidence, rows)
        return self.mean - half, self.mean + half


class Shrunk(NamedTuple):
    """A block of numbers, decomposed into seed effects and residuals.

    Attributes:
        mean: ``(N,)`` each setting's mean.
        own: ``(N,)`` v, the variance of what a seed does to one setting, shrunk.
        shared: vb, the variance of what a seed does to all settings; not below 0.
        shared_level: the variance of the seeds' means, ``MSs / N``, from which ``shared`` was taken.
        seeds: S.
    """

    mean: Floats
    own: Floats
    shared: float
    shared_level: float
    seeds: int

    @property
    def own_df(self) -> float:
        """Degrees of freedom of ``own``: those of the seeds and the prior's."""
        return float(self.seeds - 1 + PRIOR)


def shrink(y: ArrayLike) -> Shrunk:
    """Decompose a block into seed effects and residuals, and shrink the variances of the residuals.

    Args:
        y: ``(N, S)``, N and S at least 2.

    Raises:
        ShapeError, UsageError: for another shape, a number that is not finite, or a single seed or setting.
    """
    block = finite(y, "settings seeds", "block")
    n, d = len(block), seeds_of(block, "block") - 1
    if n < 2:
        raise UsageError("block: one setting alone has no usual variance to shrink to")
    mean = block.mean(1)
    shared = (block - mean[:, None]).mean(0)
    left = block - mean[:, None] - shared
    each = (left**2).sum(1) / (d * (1 - 1 / n))
    usual = float(each.mean())
    of_seeds = n * float((shared**2).sum()) / d
    own = (PRIOR * usual + d * each) / (PRIOR + d)
    return Shrunk(mean, own, max(0.0, (of_seeds - usual) / n), of_seeds / n, d + 1)


def shrunk_levels(y: ArrayLike) -> Estimate:
    """Levels ``(N,)`` on shrunk variances, whatever the number of settings; see :func:`levels`."""
    block = shrink(y)
    df = satterthwaite((np.full_like(block.own, block.shared_level), block.own), (float(block.seeds - 1), block.own_df))
    return Estimate(block.mean, np.sqrt((block.shared + block.own) / block.seeds), df)


def shrunk_differences(y: ArrayLike) -> Estimate:
    """Differences ``(N, N)`` on shrunk variances, whatever the number of settings; see :func:`differences`."""
    block = shrink(y)
    one, other = block.own[:, None], block.own[None, :]
    df = satterthwaite((one, other), (block.own_df, block.own_df))
    return Estimate(block.mean[:, None] - block.mean[None, :], np.sqrt((one + other) / block.seeds), df)


def plain_levels(y: ArrayLike) -> Estimate:
    """Levels ``(N,)``, each on its own variance over seeds, with S - 1 degrees of freedom."""
    block = finite(y, "settings seeds", "block")
    seeds = seeds_of(block, "block")
    return Estimate(block.mean(1), block.std(1, ddof=1) / np.sqrt(seeds), np.full(len(block), float(seeds - 1)))


def plain_differences(y: ArrayLike) -> Estimate:
    """Differences ``(N, N)``, paired by seed, with S - 1 degrees of freedom."""
    block = finite(y, "settings seeds", "block")
    seeds = seeds_of(block, "block")
    gaps = block[:, None, :] - block[None, :, :]
    return Estimate(gaps.mean(-1), gaps.std(-1, ddof=1) / np.sqrt(seeds), np.full(gaps.shape[:2], float(seeds - 1)))


def levels(y: ArrayLike) -> Estimate:
    """Estimate each setting's mean over the population of seeds.

    Args:
        y: ``(N, S)``; with fewer than 5 settings plain variances are used.

    Returns:
        ``(N,)`` estimates. Where nearly all of the spread is shared (utility: 90% and more), few seeds make wide
        intervals: see :func:`levels_by_undefended`.

    Raises:
        ShapeError, UsageError: for another shape, a number that is not finite, or a single seed.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import levels
        >>> y = np.array([[0.90, 0.92, 0.91], [0.85, 0.88, 0.86], [0.80, 0.81, 0.82]])  # three settings, three seeds
        >>> found = levels(y)
        >>> found.mean.round(3).tolist(), found.half_width().round(3).tolist()
        ([0.91, 0.863, 0.81], [0.017, 0.026, 0.017])
    """
    block = finite(y, "settings seeds", "block")
    return (shrunk_levels if len(block) >= FEWEST_SETTINGS else plain_levels)(block)


def differences(y: ArrayLike) -> Estimate:
    """Estimate the differences between settings, row minus column.

    Args:
        y: ``(N, S)``; with fewer than 5 settings pairs are compared by their own differences.

    Returns:
        ``(N, N)`` estimates. A shift of a seed for all settings changes none of them.

    Raises:
        ShapeError, UsageError: as :func:`levels`.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import differences
        >>> y = np.array([[0.90, 0.92, 0.91], [0.85, 0.88, 0.86], [0.80, 0.81, 0.82]])  # three settings, three seeds
        >>> differences(y).mean.round(3)[0].tolist()
        [0.0, 0.047, 0.1]
    """
    block = finite(y, "settings seeds", "block")
    return (shrunk_differences if len(block) >= FEWEST_SETTINGS else plain_differences)(block)


def differences_from(reference: ArrayLike, y: ArrayLike) -> Estimate:
    """Estimate each setting's loss against a reference, such as the undefended model: ``reference - y``.

    Args:
        reference: ``(S,)``.
        y: ``(N, S)`` with the same seeds; the reference counts as one more setting.

    Returns:
        ``(N,)`` estimates, the reference's row of :func:`differences`.

    Raises:
        ShapeError, UsageError: as :func:`levels`, or for other seeds.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import differences_from
        >>> y = np.array([[0.90, 0.92, 0.91], [0.85, 0.88, 0.86], [0.80, 0.81, 0.82]])  # three settings, three seeds
        >>> differences_from([0.93, 0.95, 0.94], y).mean.round(3).tolist()
        [0.03, 0.077, 0.13]
    """
    block, one = finite(y, "settings seeds", "block"), finite(reference, "seeds", "reference")
    if len(one) != block.shape[1]:
        raise ShapeError(f"reference: expected one number for each of {block.shape[1]} seeds, got {len(one)}")
    if len(block) + 1 < FEWEST_SETTINGS:
        gaps, seeds = one - block, seeds_of(block, "block")
        df = np.full(len(block), float(seeds - 1))
        return Estimate(gaps.mean(1), gaps.std(1, ddof=1) / np.sqrt(seeds), df)
    parts = shrink(np.vstack([one, block]))
    df = satterthwaite((np.full_like(parts.own[1:], parts.own[0]), parts.own[1:]), (parts.own_df, parts.own_df))
    return Estimate(parts.mean[0] - parts.mean[1:], np.sqrt((parts.own[0] + parts.own[1:]) / parts.seeds), df)


def levels_by_undefended(y: ArrayLike, undefended: ArrayLike) -> Estimate:
    """Estimate levels with the undefended model as a control variate that has more seeds than the settings.

    Each mean is corrected by ``b`` times how far the undefended model's mean over the settings' seeds lies from its
    mean over all of its own (a control variate); b is the share of the undefended model's variance that is shared.

    Args:
        y: ``(N, S)`` settings, without the undefended model.
        undefended: ``(R,)`` the same number of the undefended model, R >= S; its first S seeds are those of ``y``.

    Returns:
        ``(N,)`` estimates. With R = S, or with fewer than 4 settings beside the undefended model, those of
        :func:`levels`.

    Raises:
        ShapeError, UsageError: as :func:`levels`, or for R < S.

    Example:
        >>> from tune_vfl.statistics import levels_by_undefended
        >>> y = [[0.90, 0.92], [0.85, 0.88], [0.80, 0.81], [0.82, 0.85]]  # four settings, two seeds
        >>> levels_by_undefended(y, undefended=[0.93, 0.95, 0.94, 0.96]).mean.round(3).tolist()
        [0.914, 0.869, 0.809, 0.839]
    """
    block, more = finite(y, "settings seeds", "block"), finite(undefended, "seeds", "undefended model")
    s, r = seeds_of(block, "block"), len(more)
    if r < s:
        raise ShapeError(f"undefended model: expected at least the {s} seeds of the settings, got {r}")
    if r == s or len(block) + 1 < FEWEST_SETTINGS:
        return levels(block)
    parts = shrink(np.vstack([block, more[:s]]))
    own, of_undefended = parts.own[:-1], float(parts.own[-1])
    seen = max(0.0, float(more.var(ddof=1)) - of_undefended)
    shared = ((s - 1) * parts.shared + (r - 1) * seen) / (s - 1 + r - 1)
    b = shared / (shared + of_undefended) if shared > 0 else 0.0
    mean = parts.mean[:-1] - b * (more[:s].mean() - more.mean())
    of_seeds = shared * ((1 - b) ** 2 / s + (1 - (1 - b) ** 2) / r)
    of_correction = b**2 * of_undefended * (1 / s - 1 / r)
    pieces = (np.full_like(own, of_seeds), own / s, np.full_like(own, of_correction))
    df = satterthwaite(pieces, (float(r - 1), parts.own_df, parts.own_df))
    return Estimate(mean, np.sqrt(sum(pieces)), df)


def undecided(low: float, high: float) -> bool:
    """Whether an advantage's interval is too wide for a recommendation: half of it is more than .25.

    Example:
        >>> from tune_vfl.statistics import undecided
        >>> undecided(0.1, 0.7), undecided(0.1, 0.3)
        (True, False)
    """
    return (high - low) / 2 > WIDEST

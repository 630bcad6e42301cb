"""The one rule by which two means are compared: Welch's t interval of their difference, and what it can show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.papers.published import PublishedNumber

Verdict = Literal["reproduced", "higher", "lower", "undecided", "within noise", "other data", "not trained"]
Size = Literal["within", "farther", "undecided"]

JUDGED: tuple[Verdict, ...] = ("reproduced", "higher", "lower", "undecided", "within noise")
"""The verdicts that say something of a published number; the others say why there is nothing to say."""
CONFIDENCE = 0.95
"""Of every interval here, two-sided: an equal mean is called different in 5% of cases, whatever the seeds."""
RESOLUTION = 0.05
"""What ``reproduced`` allows: the largest standard error of the difference, and the largest difference."""
NOISY_RATIO = 0.1
"""The deviation from which on a ratio near 1 does not show the differences that papers claim of ratios."""


class Error(NamedTuple):
    """The variance of a mean, and the degrees of freedom by which it is known."""

    variance: float
    dof: float


def error_of(std: float, seeds: int) -> Error:
    """Return the error of a mean over so many seeds, two at least, with their sample deviation."""
    return Error(std**2 / seeds, seeds - 1)


def errors_of(published: PublishedNumber, repeats: int | None, std: float, seeds: int) -> list[Error]:
    """Return the errors of the difference between our mean and a published one.

    What the paper does not say is taken of ours: without a deviation its repeats scatter as our seeds do, and without
    a number of repeats it is one run.

    Args:
        published: the paper's number.
        repeats: over how many repeats its mean and deviation are; None where the paper does not say.
        std: our sample deviation over the seeds.
        seeds: how many; at least 2.
    """
    if published.std is not None and repeats:
        return [error_of(std, seeds), error_of(published.std, repeats)]
    theirs = std if published.std is None else published.std
    return [Error(std**2 / seeds + theirs**2 / (repeats or 1), seeds - 1)]


def half_width(errors: Sequence[Error]) -> float:
    """Return half of the interval of a sum or difference of means: Student's t, Welch and Satterthwaite's degrees."""
    variance = math.fsum(error.variance for error in errors)
    if not variance:
        return 0.0
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    dof = variance**2 / math.fsum(error.variance**2 / error.dof for error in errors)
    return float(stdtrit(dof, (1 + CONFIDENCE) / 2)) * math.sqrt(variance)


@dataclass(frozen=True)
class Difference:
    """Between our mean and a published one.

    Attributes:
        gap: ours - published.
        away: how far ours lies from what would be printed alike.
        error: standard error of the difference.
        width: half of the difference's interval.
        noisy: it is a ratio whose deviation is :data:`NOISY_RATIO` or more.
    """

    gap: float
    away: float
    error: float
    width: float
    noisy: bool = False

    @property
    def verdict(self) -> Verdict:
        """``higher`` or ``lower`` where the interval leaves out what is published.

        Else ``reproduced`` where they are :attr:`near`, so that scatter alone never earns it; ``within noise`` for a
        noisy ratio; and ``undecided``.
        """
        if self.away > self.width:
            return "higher" if self.gap > 0 else "lower"
        if self.noisy:
            return "within noise"
        return "reproduced" if self.near else "undecided"

    @property
    def near(self) -> bool:
        """Whether error and distance are at most :data:`RESOLUTION`."""
        return max(self.error, self.away) <= RESOLUTION

    @property
    def size(self) -> Size:
        """``within`` :data:`RESOLUTION`, with at most that error; surely ``farther``; or ``undecided``."""
        if self.away - self.width > RESOLUTION:
            return "farther"
        return "within" if self.near else "undecided"


def difference(
    published: PublishedNumber, repeats: int | None, mean: float, std: float, seeds: int, *, ratio: bool = False
) -> Difference | None:
    """Compare our mean with a published one; None with fewer than two seeds, which have no error.

    Args:
        published: the paper's number.
        repeats: see :func:`errors_of`.
        mean: over our seeds.
        std: their sample deviation.
        seeds: how many.
        ratio: the number is a quotient of two scores.
    """
    if seeds < 2:
        return None
    errors, gap = errors_of(published, repeats, std, seeds), mean - published.mean
    away = max(0.0, abs(gap) - published.rounding - 1e-12)
    error = math.sqrt(math.fsum(one.variance for one in errors))
    return Difference(gap, away, error, half_width(errors), noisy=ratio and std >= NOISY_RATIO)

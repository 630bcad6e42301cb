"""Power analysis: the number of seeds that it takes to tell two settings apart."""

from __future__ import annotations

import math

from tune_vfl.errors import UsageError
from tune_vfl.statistics.intervals import CONFIDENCE, PRIOR
from tune_vfl.statistics.laws import normal_quantile, t_power


def seeds_to_separate(
    difference: float, sd: float, rho: float, *, confidence: float = CONFIDENCE, power: float = 0.8, most: int = 10_000
) -> int | None:
    """Return the number of seeds that separate two settings, about ``12.4 (1 - rho) sd² / difference²``.

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

    Example:
        >>> from tune_vfl.statistics import seeds_to_separate
        >>> seeds_to_separate(0.05, sd=0.08, rho=0.3)
        23
    """
    if difference == 0 or sd < 0 or not 0 <= rho < 1:
        raise UsageError(f"no number of seeds separates a difference of {difference} with sd {sd} and rho {rho}")
    if sd == 0:
        return 2
    shift, tail = abs(difference) / (sd * math.sqrt(2 * (1 - rho))), (1 + confidence) / 2

    def enough(seeds: int) -> bool:
        # Two shrunk variances, as alike as can be: their degrees of freedom add up.
        return t_power(shift * math.sqrt(seeds), 2 * (seeds - 1 + PRIOR), tail) >= power

    low = max(2, int(((normal_quantile(tail) + normal_quantile(power)) / shift) ** 2) - 2)
    return next((s for s in range(low, min(low + 20, most + 1)) if enough(s)), None)

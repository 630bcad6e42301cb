"""The rule that says whether a published mean is reproduced."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tune_vfl.papers.published import PublishedNumber

Verdict = Literal["reproduced", "higher", "lower"]

STANDARD_ERRORS = 2.0
"""How far the published mean may lie from ours, in standard errors of the difference."""


def tolerance(published: PublishedNumber, repeats: int | None, std: float, seeds: int) -> float:
    """Return how far two means may lie apart and still agree.

    Two standard errors of ours, with the paper's added in quadrature where it gives deviation and number of repeats,
    and half a unit of the last digit that the paper prints.

    Args:
        published: the paper's number.
        repeats: over how many repeats its mean and deviation are; None where the paper does not say.
        std: our sample deviation over the seeds.
        seeds: how many; at least 2.
    """
    theirs = published.std**2 / repeats if published.std is not None and repeats else 0.0
    return STANDARD_ERRORS * math.sqrt(std**2 / seeds + theirs) + published.rounding


def verdict_of(published: PublishedNumber, repeats: int | None, mean: float, std: float, seeds: int) -> Verdict | None:
    """Compare our mean with a published one.

    Returns:
        ``reproduced``, or that ours is ``higher`` or ``lower``; None with fewer than two seeds, which have no error.
    """
    if seeds < 2:
        return None
    gap = mean - published.mean
    if abs(gap) <= tolerance(published, repeats, std, seeds) + 1e-12:
        return "reproduced"
    return "higher" if gap > 0 else "lower"

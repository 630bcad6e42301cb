"""Marvell's noise: the variances along and across the class difference that leak least at a given budget.

A deterministic search in float64, for any number of members at once. It runs on the host with numpy: its hundred-odd
operations on a few numbers each would cost more to launch on a device than the batch itself.

With G the squared distance of the class means, p the share of positives, u and v the variances per coordinate of the
negative and the positive class, d the width and P the budget, it minimizes

    J = (d-1) [(l20+u)/(l21+v) + (l21+v)/(l20+u)] + (l10+u+G)/(l11+v) + (l11+v+G)/(l10+u)

over p (l11 + (d-1) l21) + (1-p) (l10 + (d-1) l20) = P, l11 >= l21 >= 0, l10 >= l20 >= 0, where l1c is the variance
along the class difference and l2c across it for class c. J / 2 - d is the symmetric Kullback-Leibler divergence of the
two classes' gradients (Li et al. 2022).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]

NO_VARIANCE = 1e-12
"""Smallest class variance, in units of G: keeps the divergence finite, moves a solution by about this much at most."""
POINTS = 128
_LOG_GRID = np.concatenate([[0.0], np.logspace(-6, 0, POINTS - 1)])
_GRID = np.linspace(0.0, 1.0, POINTS)


class NoiseVariances(NamedTuple):
    """The solution: variances of the noise, each of shape ``(T,)``, in the units of the budget.

    Attributes:
        along1, across1: of positives, along and across the difference of the class means.
        along0, across0: of negatives.
        sum_kl: symmetric Kullback-Leibler divergence of the noisy classes; smaller leaks less.
    """

    along1: Numbers
    across1: Numbers
    along0: Numbers
    across0: Numbers
    sum_kl: Numbers


class _Problem(NamedTuple):
    """The problem in units of G, with the quieter class called 0; every number has shape ``(T, 1)``."""

    u: Numbers
    v: Numbers
    p: Numbers
    budget: Numbers
    d: int


def _along(problem: _Problem, x: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the best variances along the difference when class 0 gets ``x`` across it and class 1 gets none.

    With a = l10 + u and b = l11 + v the constraint is (1-p) a + p b = C, on which J is convex in a with its minimum at
    b = E a; outside of its bounds the nearer bound is the best.

    Returns:
        ``a``, ``b`` and ``J``, each ``(T, X)``.
    """
    u, v, p, budget, d = problem
    q = 1 - p
    left = budget - (q * (d - 1)) * x
    total = left + (p * v + q * u)
    ratio = np.sqrt((total + q) / (total + p))
    across = x + u
    a = np.maximum(np.minimum(total / (q + p * ratio), left / q + u), across)
    b = np.maximum((total - q * a) / p, v)  # rounding must not make a variance negative
    across = across / v
    return a, b, (a + 1) / b + (b + 1) / a + (d - 1) * (across + 1 / across)


def _best_across(problem: _Problem) -> Numbers:
    """Return the best variance across the difference for class 0, ``(T, 1)``.

    A logarithmic grid, an even one around its best point, and a parabola through the best three: few and wide steps,
    as each takes some thirty calls at any width. More than v - u never pays: it takes budget from the other direction
    and drives the classes apart again.
    """
    rows = np.arange(len(problem.p))
    high = np.minimum(problem.v - problem.u, problem.budget / ((1 - problem.p) * problem.d))
    points = high * _LOG_GRID
    best = _along(problem, points)[2].argmin(-1)
    low = points[rows, np.maximum(best - 1, 0)]
    step = (points[rows, np.minimum(best + 1, POINTS - 1)] - low) / (POINTS - 1)
    leaks = _along(problem, low[:, None] + (step * (POINTS - 1))[:, None] * _GRID)[2]
    best = leaks.argmin(-1)
    inner = np.minimum(np.maximum(best, 1), POINTS - 2)
    left, middle, right = leaks[rows, inner - 1], leaks[rows, inner], leaks[rows, inner + 1]
    curved = np.maximum(left - 2 * middle + right, 1e-300)
    shift = np.minimum(np.maximum((left - right) / (2 * curved), -1), 1)
    found: Numbers = low + step * (inner + shift)
    return found[:, None]


def solve(*, u: Numbers, v: Numbers, gap: Numbers, p: Numbers, budget: Numbers, d: int) -> NoiseVariances:
    """Return the noise that leaks least.

    Args:
        u: ``(T,)`` variance per coordinate of the negatives, not negative.
        v: ``(T,)`` variance per coordinate of the positives, not negative.
        gap: ``(T,)`` squared distance G of the class means, positive.
        p: ``(T,)`` share of positives, strictly between 0 and 1.
        budget: ``(T,)`` total variance P = p tr(Sigma1) + (1-p) tr(Sigma0), not negative.
        d: width of the gradient.

    Returns:
        The variances; the class with the larger variance of its own gets none across the difference.
    """
    # The problem is symmetric in the classes: name the one with the smaller variance 0 and swap back at the end.
    swapped = u > v
    quiet, loud = np.maximum(np.stack([np.minimum(u, v), np.maximum(u, v)]) / gap, NO_VARIANCE)
    share = np.where(swapped, 1 - p, p)
    problem = _Problem(quiet[:, None], loud[:, None], share[:, None], (budget / gap)[:, None], d)
    x = np.zeros_like(problem.p) if d == 1 else _best_across(problem)
    a, b, leak = _along(problem, x)
    scale = np.where(budget > 0, gap, 0.0)[:, None]  # no budget: no noise, not even rounding errors
    along0, along1, across0 = ((n * scale)[:, 0] for n in (a - problem.u, b - problem.v, x))
    none = np.zeros_like(across0)
    return NoiseVariances(
        along1=np.where(swapped, along0, along1),
        across1=np.where(swapped, across0, none),
        along0=np.where(swapped, along1, along0),
        across0=np.where(swapped, none, across0),
        sum_kl=leak[:, 0] / 2 - d,
    )

"""An accountant of differential privacy: the exact budget of the Gaussian mechanism under composition.

scipy is imported at the first call.
"""

from __future__ import annotations

import math

DELTA = 1e-5
"""The chance that a budget leaves out, where nothing else is said."""
_HALVINGS = 200
_TAIL = 1.0
"""From here on both tails are compared by what is left of them without their common factor."""


def composed(releases: int, *, sensitivity: float, sigma: float) -> float:
    """Return mu of several Gaussian releases: as hard to tell apart as N(0, 1) from N(mu, 1).

    That is exact, also where a release depends on those before it. Source: Dong, Roth and Su 2019, Gaussian
    Differential Privacy, theorem 2.7 and corollary 3.3.

    Args:
        releases: how many.
        sensitivity: how far what is released may lie from its counterpart, in the L2 norm.
        sigma: standard deviation of the noise on each entry.
    """
    if releases == 0:
        return 0.0
    return math.inf if sigma == 0 else math.sqrt(releases) * sensitivity / sigma


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta at ``epsilon`` of mu-GDP: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).

    Args:
        epsilon: not negative.
        mu: see :func:`composed`; positive and finite.
    """
    return _delta_at(epsilon / mu - mu / 2, mu)


def epsilon_of(mu: float, delta: float = DELTA) -> float:
    """Return the smallest epsilon of mu-GDP at ``delta``, from 0 on; infinite for infinite ``mu``.

    Source: Balle and Wang 2018, Improving the Gaussian Mechanism for Differential Privacy, theorem 8.

    Args:
        mu: see :func:`composed`; not negative.
        delta: in (0, 1).
    """
    if mu == 0 or math.isinf(mu):
        return mu
    from scipy.special import ndtri

    # In s = eps/mu - mu/2 the bounds are near: delta is Phi(-s) less something, and eps is 0 at the lower one.
    low, high = -mu / 2, -float(ndtri(delta))
    if low >= high or _delta_at(low, mu) <= delta:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if _delta_at(middle, mu) <= delta else (middle, high)
    return mu * (high + mu / 2)


def _delta_at(s: float, mu: float) -> float:
    """Return Phi(-s) - e^eps Phi(-s - mu) with eps = mu (s + mu/2).

    e^eps Phi(-t) is e^(-s^2/2) erfcx(t / sqrt 2) / 2 at t = s + mu: nothing overflows, however large eps is.
    """
    from scipy.special import erfcx, ndtr

    common, other = math.exp(-s * s / 2) / 2, float(erfcx((s + mu) / math.sqrt(2)))
    if s < _TAIL:
        return float(ndtr(-s)) - common * other
    return common * (float(erfcx(s / math.sqrt(2))) - other)

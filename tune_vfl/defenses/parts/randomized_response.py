"""Randomized response among the classes that a prior finds likeliest: its law, and the draw of a label.

Every function takes any leading axes. A row's classes are ordered from the likeliest down; a label is drawn in terms of
places in that order, from two uniform numbers. With all K classes and the order 0, 1, 2, ... it is the plain response.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def keep_probability(epsilon: float, num_classes: int) -> float:
    """Return how likely randomized response keeps a label: e^epsilon / (e^epsilon + K - 1)."""
    return 1 / (1 + (num_classes - 1) * math.exp(-epsilon))


def likeliest_first(prior: Tensor) -> Tensor:
    """Return the classes ``(..., K)`` int64 from the likeliest down; of equal ones the lower class comes first."""
    return prior.argsort(dim=-1, descending=True, stable=True)


def best_count(prior: Tensor, epsilon: float | Tensor) -> Tensor:
    """Return how many of the likeliest classes make the true label likeliest to stay: k* in 1..K.

    That is the k with the largest (sum of the k largest priors) / (1 + (k - 1) e^-epsilon), of equal ones the smallest.

    Args:
        prior: ``(..., K)``, not negative.
        epsilon: a number, or one that broadcasts against ``(..., 1)``.

    Returns:
        ``(...)`` int64.
    """
    mass = prior.double().sort(dim=-1, descending=True).values.cumsum(-1)
    others = torch.arange(prior.shape[-1], dtype=torch.float64, device=prior.device)
    swapped = torch.as_tensor(epsilon, dtype=torch.float64, device=prior.device).neg().exp()
    return (mass / (1 + others * swapped)).argmax(-1) + 1


def drawn_place(place: Tensor, count: Tensor | int, epsilon: float | Tensor, draws: tuple[Tensor, Tensor]) -> Tensor:
    """Draw the place that is answered in place of the true class's.

    Args:
        place: ``(...)`` int64, of the true class in its row's order.
        count: k, so that the answer lies in 0..k-1; a number or ``(...)``.
        epsilon: the budget, a number or what broadcasts against ``(...)``.
        draws: two ``(...)`` uniform in [0, 1): whether the class is kept, and which takes its place where it is not.

    Returns:
        ``(...)`` int64.
    """
    coin, other = draws
    k = torch.as_tensor(count, device=place.device)
    swaps = torch.as_tensor(epsilon, dtype=torch.float64, device=place.device).neg().exp()
    # Clamped: float32 rounds other * k up to k now and then.
    step = 1 + torch.minimum((other * (k - 1)).long(), (k - 2).clamp_min(0))
    anywhere = torch.minimum((other * k).long(), k - 1)
    swapped = torch.where(coin < 1 / (1 + (k - 1) * swaps), place, (place + step) % k)
    return torch.where(place < k, swapped, anywhere)


def unbiased_shares(counts: Tensor, epsilon: float | Tensor) -> Tensor:
    """Estimate the shares of the true classes from how often each was answered by the plain response.

    Args:
        counts: ``(..., K)``, not all zero.
        epsilon: the budget, a number or what broadcasts against ``(..., 1)``.

    Returns:
        ``(..., K)`` float64, not negative, rows summing to 1.
    """
    shares = counts.double() / counts.sum(-1, keepdim=True)
    swaps = torch.as_tensor(epsilon, dtype=torch.float64, device=counts.device).neg().exp()
    kept = 1 / (1 + (counts.shape[-1] - 1) * swaps)
    # Unscaled: dividing by (kept - swapped) would change all alike, and it is 0 where epsilon is lost in rounding.
    unscaled = (shares - kept * swaps).clamp_min(0)
    total = unscaled.sum(-1, keepdim=True)
    return torch.where(total > 0, unscaled / total, 1 / counts.shape[-1])

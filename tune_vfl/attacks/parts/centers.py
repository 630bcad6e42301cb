"""Shared part of the mean and median attacks: the nearer of two class centers, for all rows at once."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.protocol.granted import Centers


def nearer_positive(values: Tensor, centers: Centers, *, strict: bool = False) -> tuple[Tensor, Tensor]:
    """Predict 1 where a row is nearer to the positive class's center, of the centers without the row's own fold.

    The difference of squared distances equals ``2 (v - midpoint) . (mu1 - mu0)``, which keeps its precision where both
    distances are large beside their difference.

    Args:
        values: ``(*trials, M, d)``.
        centers: of two classes.
        strict: whether a tie goes to the negative class.

    Returns:
        ``(*trials, M)`` scores 0.0 or 1.0, and ``(*trials, M)`` bool, False where a class had no rows.
    """
    own = torch.arange(centers.without.shape[-3], device=values.device) == centers.folds.unsqueeze(-1)
    known = (torch.isfinite(centers.without).all(-1).all(-1).unsqueeze(-2) & own).any(-1)
    side = values.new_zeros(values.shape[:-1])
    for f in range(centers.without.shape[-3]):
        negative, positive = centers.without[..., f, :1, :], centers.without[..., f, 1:, :]
        of_fold = ((values - (positive + negative) / 2) * (positive - negative)).sum(-1)
        side = torch.where(own[..., f], of_fold, side)
    return (side > 0 if strict else side >= 0).to(values.dtype), known


def median(values: Tensor) -> Tensor:
    """Median along the last axis, kept: the middle value, or the average of the two middle ones."""
    ordered, n = values.sort(dim=-1).values, values.shape[-1]
    return (ordered[..., (n - 1) // 2] + ordered[..., n // 2]).unsqueeze(-1) / 2

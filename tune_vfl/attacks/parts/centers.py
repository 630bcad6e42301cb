"""What the mean and the median attack share: the nearer of two class centers, decided for all rows at once."""

from __future__ import annotations

import torch
from torch import Tensor


def nearer_positive(values: Tensor, centers: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
    """Predict 1 where a row is nearer to the positive class's center.

    The difference of squared distances equals ``2 (v - midpoint) . (mu1 - mu0)``, which keeps its precision where both
    distances are large beside their difference.

    Args:
        values: ``(*trials, M, d)``.
        centers: ``(*trials, 2, d)``; NaN for a class without rows.
        strict: whether a tie goes to the negative class.

    Returns:
        ``(*trials, M)`` scores 0.0 or 1.0, and ``(*trials, M)`` bool, False where a class had no rows.
    """
    negative, positive = centers[..., :1, :], centers[..., 1:, :]
    known = torch.isfinite(centers).all(-1).all(-1, keepdim=True)
    side = ((values - (positive + negative) / 2) * (positive - negative)).sum(-1)
    scores = (side > 0 if strict else side >= 0).to(values.dtype)
    return scores, known.expand(scores.shape)


def median(values: Tensor) -> Tensor:
    """Median along the last axis, kept: the middle value, or the average of the two middle ones."""
    ordered, n = values.sort(dim=-1).values, values.shape[-1]
    return (ordered[..., (n - 1) // 2] + ordered[..., n // 2]).unsqueeze(-1) / 2

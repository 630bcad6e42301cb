"""Mean embeddings and gradients of each row over both halves of a training."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.protocol.visits import Visits

HALF_TIMES = (0.0, 0.5)
"""Times of the halves, at which templates are free of each other."""
WITHIN = 0.7
"""Share of the entries of an epoch and a column that is not clipped."""


def half_means(visits: Visits) -> dict[str, Visits]:
    """Return the means of visits as two visits of all rows, of gradients as they are and clipped.

    Noise drawn anew averages out of a mean, and what stays of it shows how far the means of rows of one class differ.
    Clipped, a few wild entries weigh no more than others.

    Args:
        visits: gradients ``(T, E, N, d)``, as the attacker read them.
    """
    received = visits.received
    middle = received.median(2, keepdim=True).values
    apart = received - middle
    width = apart.abs().kthvalue(max(1, round(WITHIN * received.shape[2])), dim=2, keepdim=True).values
    clipped = (apart / width.clamp(min=1e-30)).clamp(-1, 1)
    return {"halves": _of(visits, received), "clipped_halves": _of(visits, clipped)}


def _of(visits: Visits, received: Tensor) -> Visits:
    means = _halves(received)
    size = means.square().mean((2, 3), keepdim=True).sqrt().clamp(min=1e-30)
    members, _, rows, _ = means.shape
    places = torch.arange(rows).expand(members, 2, rows)
    return Visits(_halves(visits.sent), means / size, places, HALF_TIMES, rows)


def _halves(by_epoch: Tensor) -> Tensor:
    """Return ``(T, 2, N, k)`` means of ``(T, E, N, k)``; the middle one of an odd number is in both."""
    half = -(-by_epoch.shape[1] // 2)
    return torch.stack([by_epoch[:, :half].mean(1), by_epoch[:, -half:].mean(1)], 1)

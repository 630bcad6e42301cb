"""How far two sets of rows depend on each other, differentiable and with leading axes."""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-16
"""Added under square roots, so that equal rows have a finite correlation and gradient."""


def _distances(rows: Tensor) -> Tensor:
    # Computed from differences. The faster way, by matrix products, leaves rounding errors where rows are equal, and
    # the square root would magnify them.
    return torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")


def _centered(distances: Tensor) -> Tensor:
    rows = distances.mean(-1, keepdim=True)
    return distances - rows - rows.mT + rows.mean(-2, keepdim=True)


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Return the sample distance correlation of two sets of rows (Szekely et al. 2007), a V-statistic.

    Args:
        x: ``(*trials, B, d)``.
        y: ``(*trials, B, c)``.

    Returns:
        ``(*trials,)`` from 0 (independent) to 1. Small batches give too large values. Where all rows of one side are
        equal, the value is near 0.
    """
    a, b = _centered(_distances(x)), _centered(_distances(y))
    shared = ((a * b).mean((-2, -1)).clamp_min(0) + TINY).sqrt()
    own_x, own_y = ((m.square().mean((-2, -1)) + TINY).sqrt() for m in (a, b))
    return shared / (own_x * own_y + TINY).sqrt()

"""Columns of rows brought to one scale, and their main directions."""

from __future__ import annotations

import torch
from torch import Tensor

WIDEST = 32
"""Principal columns that are kept of a group of columns, or of gradients."""


def standardized(rows: Tensor) -> Tensor:
    """Return ``(..., N, d)`` columns with mean 0 and variance 1; columns that do not vary become 0."""
    finite = rows.float().nan_to_num(0.0, 0.0, 0.0)
    spread, center = torch.std_mean(finite, -2, keepdim=True)
    return torch.where(spread > 1e-6 * center.abs() + 1e-30, (finite - center) / spread.clamp(min=1e-30), 0.0)


def scaled(rows: Tensor) -> Tensor:
    """Return centered rows ``(..., N, d)`` whose entries have a mean square of 1."""
    finite = rows.float().nan_to_num(0.0, 0.0, 0.0)
    centered = finite - finite.mean(-2, keepdim=True)
    size = centered.square().mean((-1, -2), keepdim=True).sqrt()
    return torch.where(size > 0, centered / size.clamp(min=1e-30), 0.0)


def principal(rows: Tensor, count: int) -> Tensor:
    """Return the ``count`` main coordinates of centered rows ``(..., N, d)``; narrower rows as they are."""
    if rows.shape[-1] <= count:
        return rows
    main: Tensor = rows @ main_axes(rows, count).to(rows.dtype)
    return main


def main_axes(rows: Tensor, count: int) -> Tensor:
    """Return the ``count`` main directions of centered rows ``(..., N, d)``, float64 ``(..., d, count)``."""
    axes: Tensor = torch.linalg.eigh((rows.mT @ rows).double()).eigenvectors[..., -count:]
    return axes


def evenly(rows: int, most: int) -> Tensor:
    """Return the places of at most so many rows, evenly spread from the first one to the last."""
    return torch.linspace(0, rows - 1, min(most, rows)).round().long()


def taken(values: Tensor, rows: Tensor) -> Tensor:
    """Return ``(T, ..., n, d)`` of ``(T, ..., N, d)`` values: each member's rows ``(T, n)``."""
    return torch.stack([of.index_select(-2, at) for of, at in zip(values, rows, strict=True)])


def ranked(rows: Tensor) -> Tensor:
    """Return ``(..., N, d)`` columns as shares of the rows that are smaller, equal ones counting one half.

    What outliers and long tails do to a mean and a distance they do not do to these.
    """
    columns = rows.float().nan_to_num(0.0).mT.contiguous()
    order = columns.sort(-1).values
    below = torch.searchsorted(order, columns) + torch.searchsorted(order, columns, right=True)
    shares: Tensor = (below.float() / (2 * rows.shape[-2])).mT
    return shares


_SHRUNK = 0.05


def shrunk(covariance: Tensor, share: float = _SHRUNK) -> Tensor:
    """Draw a covariance ``(..., d, d)`` by a share towards a multiple of the identity with its trace."""
    mean = covariance.diagonal(dim1=-1, dim2=-2).mean(-1)[..., None, None].clamp(min=1e-12)
    return (1 - share) * covariance + share * mean * torch.eye(covariance.shape[-1], dtype=covariance.dtype)

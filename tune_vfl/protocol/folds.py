"""Folds of rows, each with its share of every class, for members side by side."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def folds_of(y: Tensor, keys: Tensor, folds: int | Tensor) -> Tensor:
    """Assign rows to folds whose sizes and class shares differ by at most one row.

    Args:
        y: ``(*trials, A)`` labels.
        keys: ``(*trials, A)`` numbers in [0, 1) that order the rows of a class.
        folds: how many, or ``(*trials, 1)`` how many for each member.

    Returns:
        ``(*trials, A)`` int64 in ``0..folds-1``.
    """
    order = (y + keys).argsort(-1)
    place = torch.arange(y.shape[-1], device=y.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, place) % folds


def folds_with_every_class(y: Tensor, keys: Tensor, most: int) -> Tensor:
    """Assign rows to at most ``most`` folds, each with a row of every class, by :func:`folds_of`."""
    rarest = one_hot(y).sum(-2).amin(-1, keepdim=True)
    return folds_of(y, keys, rarest.clamp(1, most))

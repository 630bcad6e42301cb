"""Dependence of two sets of rows on each other: differentiable measures with leading axes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import one_hot, pad

TINY = 1e-16
"""Added under square roots, so that equal rows have a finite correlation and gradient."""


def _distances(rows: Tensor) -> Tensor:
    # Computed from differences. The faster way, by matrix products, leaves rounding errors where rows are equal, and
    # the square root would magnify them.
    return torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")


def _centered(distances: Tensor) -> Tensor:
    rows = distances.mean(-1, keepdim=True)
    return distances - rows - rows.mT + rows.mean(-2, keepdim=True)


def _ratio(shared: Tensor, own_x: Tensor, own_y: Tensor) -> Tensor:
    """Return the correlation from the means of the products and the squares of centered distances."""
    top = (shared.clamp_min(0) + TINY).sqrt()
    return top / ((own_x.clamp_min(0) + TINY).sqrt() * (own_y.clamp_min(0) + TINY).sqrt() + TINY).sqrt()


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Return the sample distance correlation of two sets of rows (Szekely et al. 2007), a V-statistic.

    Args:
        x: ``(*trials, B, d)``.
        y: ``(*trials, B, c)``.

    Returns:
        ``(*trials,)`` from 0 (independent) to 1. Small batches give too large values. Where all rows of one side are
        equal, the value is near 0.

    Example:
        >>> import torch
        >>> from tune_vfl.metrics import distance_correlation
        >>> x = torch.arange(8.0).unsqueeze(1)
        >>> round(distance_correlation(x, -3 * x).item(), 3)
        1.0
    """
    a, b = _centered(_distances(x)), _centered(_distances(y))
    return _ratio((a * b).mean((-2, -1)), *(m.square().mean((-2, -1)) for m in (a, b)))


def class_distance_correlation(x: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """Return :func:`distance_correlation` of rows and their one-hot classes, by a faster closed form.

    Two one-hot vectors are sqrt(2) apart where the classes differ. So all that the labels contribute follows from the
    shares of the classes, and of the rows' distances only the sum from each row to each class is needed. Centered
    distances are never formed: a mean of their products is the mean of the products as they are, less twice that of
    the rows' means, plus the product of the means. Everything is computed in float64, where these sums of large terms
    of both signs keep their digits.

    Args:
        x: ``(*trials, B, d)``. For d = 1 the sums come from sorting, and no B x B matrix exists; else there is one.
        y: ``(*trials, B)`` int64 classes.
        num_classes: K, the number of classes.

    Returns:
        ``(*trials,)`` float64, differentiable once by ``x``.

    Example:
        >>> import torch
        >>> from tune_vfl.metrics import class_distance_correlation
        >>> y = torch.tensor([0, 1, 0, 1])
        >>> round(class_distance_correlation(y.unsqueeze(1).float(), y, num_classes=2).item(), 3)
        1.0
    """
    rows = x.double() - x.double().mean(-2, keepdim=True).detach()
    count = x.shape[-2]
    members = one_hot(y, num_classes).double().expand(*x.shape[:-1], num_classes)
    by_sorting = x.shape[-1] == 1
    sums: Tensor = _sums_by_sorting(rows, members) if by_sorting else _Sums.apply(rows, members)  # type: ignore[no-untyped-call]

    row = sums.sum(-1, keepdim=True) / count
    mean = row.mean((-2, -1))
    squares = 2 * (rows - rows.mean(-2, keepdim=True)).square().sum(-1).mean(-1)
    own_x = squares - 2 * row.square().mean((-2, -1)) + mean.square()

    # In units of sqrt(2): the share of other rows of another class, by row and overall.
    share = members.mean(-2, keepdim=True)
    other = 1 - (members * share).sum(-1, keepdim=True)
    others = other.mean((-2, -1))
    own_y = 2 * (others - 2 * other.square().mean((-2, -1)) + others.square())

    apart = mean - (sums * members).sum((-2, -1)) / count**2
    shared = 2**0.5 * (apart - 2 * (row * other).mean((-2, -1)) + mean * others)
    return _ratio(shared, own_x, own_y)


class _Sums(Function):
    """The distances from each row to all rows of each class, added up; backward by matrix products."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, members: Tensor) -> Tensor:
        distances = _distances(rows)
        ctx.save_for_backward(rows, members, distances)
        return distances @ members

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rows, members, distances = ctx.saved_tensors
        # What a distance weighs in the loss, once from either end, over its length: a row is drawn along x_i - x_j by
        # that much. Equal rows have no direction, and do not draw on each other.
        half = grad @ members.mT
        weights = (half + half.mT).div_(distances).masked_fill_(distances == 0, 0.0)
        return rows * weights.sum(-1, keepdim=True) - weights @ rows, None


def _sums_by_sorting(rows: Tensor, members: Tensor) -> Tensor:
    """Return ``(*trials, B, K)`` distances from each number to those of each class, added up; ``rows`` has width 1.

    The numbers below a row are added up by a cumulative sum over the sorted ones, and so are those above it. Equal
    ones are neither, so that they do not draw on each other.
    """
    ordered, order = rows.sort(-2)
    sorted_members = members.gather(-2, order.expand_as(members))

    def begun(values: Tensor) -> Tensor:
        return pad(values.cumsum(-2), (0, 0, 1, 0))

    counts, totals = begun(sorted_members), begun(ordered * sorted_members)
    keys, wanted = (t.detach().squeeze(-1).contiguous() for t in (ordered, rows))
    low, high = (
        torch.searchsorted(keys, wanted, right=right).unsqueeze(-1).expand_as(members) for right in (False, True)
    )

    def balance(begun: Tensor) -> Tensor:
        """Sums below each row minus sums above it."""
        return begun.gather(-2, low) + begun.gather(-2, high) - begun[..., -1:, :]

    return rows * balance(counts) - balance(totals)

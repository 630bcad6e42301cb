"""Model inversion by gradient descent on the input: the shared part of white-box and black-box inversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.models.optimizers import Adam
from tune_vfl.spec import Listed, Strict

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class InversionParams(Strict):
    """Parameters of every attack that inverts a model by descent on its input."""

    rows: int = Field(64, ge=1, description="training rows to reconstruct, the same ones for every attack and setting")
    iterations: int = Field(400, ge=1, description="steps of descent; He et al. take 5000")
    lr: float = Field(0.1, gt=0, description="learning rate of Adam; He et al. take 0.01 for their 5000 steps")
    bounded: bool = Field(
        True, description="keep pixels within [0, 1] at every step; He et al. let them go and clamp at the end"
    )
    tv: Listed[NonNegative] = Field(
        (0.0, 0.01, 0.1, 1.0),
        min_length=1,
        description="weights of total variation to choose among by rows that the attacker knows; images only",
    )
    l2: Listed[NonNegative] = Field(
        (0.0, 0.1, 1.0, 10.0, 100.0),
        min_length=1,
        description="weights of a row's mean squared distance from the starting row, to choose among in the same way",
    )


@dataclass(frozen=True, eq=False)
class Inverted:
    """Rows ``(*trials, M, ...)`` that a model was inverted to, and how far ``(*trials, M)`` it stays from the goal."""

    rows: Tensor
    mismatch: Tensor


def total_variation(x: Tensor) -> Tensor:
    """Mean squared difference of neighbors along the height plus that along the width of images ``(..., C, H, W)``.

    He et al. 2019, released code; an axis of one pixel adds nothing.

    Returns:
        ``(...)``.
    """
    down, right = x.diff(dim=-2), x.diff(dim=-1)
    parts = [d.square().mean((-3, -2, -1)) for d in (down, right) if d.numel()]
    return torch.stack(parts).sum(0) if parts else x.new_zeros(x.shape[:-3])


def weights_to_try(params: InversionParams, shape: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the pairs of weights ``(tv, l2)`` for rows of a shape; a table has no neighbors to vary between."""
    tv = dict.fromkeys(params.tv) if len(shape) == 3 else [0.0]
    return list(product(tv, dict.fromkeys(params.l2)))


def descend(
    model: Callable[[Tensor], Tensor],
    goal: Tensor,
    shape: tuple[int, ...],
    weights: Tensor,
    params: InversionParams,
    *,
    start: Tensor | None = None,
) -> Inverted:
    """Search for rows whose embeddings match ``goal``.

    Each row goes its own way from ``start``, by AMSGrad with epsilon 1e-3, on the mean squared distance of its
    embedding plus ``tv`` times its total variation and ``l2`` times its mean squared distance from ``start``: the same
    alone or among others.

    Args:
        model: ``(*trials, M, *shape) -> (*trials, M, d)``, one row apart from another.
        goal: ``(*trials, M, d)``.
        shape: of a row.
        weights: ``(*trials, M, 2)`` tv and l2 of each row.
        params: iterations, learning rate and bounds.
        start: ``(*trials, 1, *shape)``, see :func:`typical_row`; None is zero.
    """
    begin = goal.new_zeros(*goal.shape[:-1], *shape)
    begin = begin if start is None else begin + start
    x = begin.clone().requires_grad_()
    optimizer = Adam([x], lr=params.lr, eps=1e-3, amsgrad=True)
    tv, l2 = weights.unbind(-1)
    axes = tuple(range(-len(shape), 0))
    for _ in range(params.iterations):
        loss = (model(x) - goal).square().mean(-1)
        if len(shape) == 3:
            loss = loss + tv * total_variation(x)
        loss = loss + l2 * (x - begin).square().mean(axes)
        (x.grad,) = torch.autograd.grad(loss.sum(), x)
        optimizer.step()
        if params.bounded:
            x.data = as_rows(x.data, shape)
    found = as_rows(x.detach(), shape)
    with torch.no_grad():
        return Inverted(found, (model(found) - goal).square().mean(-1))


def typical_row(known: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """Return the mean ``(*trials, 1, *shape)`` of known images; None, which is zero, for tables.

    A table is standardized, so its mean is zero. Images are not: zero would be a black picture, far from most images.

    Args:
        known: ``(*trials, A, *shape)``.
        shape: of a row.
    """
    return known.mean(-len(shape) - 1, keepdim=True) if len(shape) == 3 else None


def as_rows(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return valid rows: pixels clipped to [0, 1], non-finite numbers replaced."""
    finite = x.nan_to_num()
    return finite.clamp(0.0, 1.0) if len(shape) == 3 else finite


def tuned(
    model: Callable[[Tensor], Tensor],
    known: Tensor,
    embeddings: Tensor,
    candidates: list[tuple[float, float]],
    params: InversionParams,
    *,
    start: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose weights member by member: those that bring known rows back best.

    Args:
        model: as for :func:`descend`.
        known: ``(*trials, A, *shape)`` rows that the attacker knows.
        embeddings: ``(*trials, A, d)`` the embeddings sent for them.
        candidates: pairs of weights.
        params: iterations and learning rate.
        start: as for :func:`descend`.

    Returns:
        ``(*trials, 2)`` weights, and ``(*trials,)`` the mean squared error that they leave on the known rows.
    """
    axis, count = embeddings.dim() - 2, embeddings.shape[-2]
    lead, shape = embeddings.shape[:axis], tuple(known.shape[axis + 1 :])
    table = torch.tensor(candidates, dtype=embeddings.dtype, device=embeddings.device)
    # All candidates in one descent: rows do not disturb one another.
    each = table.repeat_interleave(count, 0).expand(*lead, -1, 2)
    goal = torch.cat([embeddings] * len(candidates), -2)
    found = descend(model, goal, shape, each, params, start=start).rows
    error = (found - torch.cat([known] * len(candidates), axis)).square().flatten(axis + 1).mean(-1)
    by_candidate = error.view(*lead, len(candidates), count).mean(-1)
    best = by_candidate.nan_to_num(nan=torch.inf).argmin(-1)
    return table[best], by_candidate.gather(-1, best.unsqueeze(-1)).squeeze(-1)

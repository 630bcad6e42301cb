"""Spherical k-means for many members at once."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p

import torch
from torch import Tensor

from tune_vfl.kernels.compiled import routine
from tune_vfl.models.layers import NARROW
from tune_vfl.protocol.members import gather_rows
from tune_vfl.seeds import Streams

ROUNDS = 50


def unit(rows: Tensor) -> Tensor:
    """Scale rows ``(..., d)`` to length 1; rows of length 0, or with entries that are not finite, become 0.

    Scaling by the largest entry first keeps rows whose squares would be too small or too large for their precision.
    """
    finite = torch.where(torch.isfinite(rows).all(-1, keepdim=True), rows, 0.0)
    largest = finite.abs().amax(-1, keepdim=True)
    scaled = torch.where(largest > 0, finite / largest, 0.0)
    lengths = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return torch.where(lengths > 0, scaled / lengths, 0.0)


def spherical_kmeans(rows: Tensor, clusters: int, *, streams: Streams, restarts: int) -> Tensor:
    """Find directions that rows of length 1 gather around (Dhillon and Modha 2001, started as k-means++ does).

    Each row belongs to the center with which its product is largest, each center is the direction of the sum of its
    rows; a center without rows stays where it is. The start with the largest sum of products wins.

    Args:
        rows: ``(*trials, M, d)`` of length 1 or 0.
        clusters: C; there may be fewer different rows, then some centers coincide.
        streams: where the random starts come from, the same alone or in a pack.
        restarts: how many starts.

    Returns:
        ``(*trials, C, d)`` centers.
    """
    # Double precision: an assignment must not depend on how a product was rounded, alone or in a pack.
    exact = rows.double().contiguous()
    draws = streams["kmeans"].uniform(restarts, clusters).to(exact)
    best, most = (
        exact.new_zeros(*rows.shape[:-2], clusters, rows.shape[-1]),
        exact.new_full(rows.shape[:-2], -torch.inf),
    )
    for draw in draws.unbind(-2):  # one start at a time: all at once would take that many times the memory
        centers, within = clustered(exact, draw.contiguous(), ROUNDS)
        best = torch.where((within > most)[..., None, None], centers, best)
        most = torch.maximum(within, most)
    return best.to(rows.dtype)


def clustered(rows: Tensor, draws: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
    """Return the centers that a start with these draws ``(*trials, C)`` leads to, and the sum of products there."""
    natively = native_clustering() if rows.device.type == "cpu" else None
    if natively is None:
        centers = _settle(rows, _start(rows, draws), rounds)
        return centers, (rows @ centers.transpose(-1, -2)).amax(-1).sum(-1)
    centers, within = rows.new_empty(*draws.shape, rows.shape[-1]), rows.new_empty(draws.shape[:-1])
    sizes = within.numel(), *rows.shape[-2:], draws.shape[-1], rounds
    natively(rows.data_ptr(), draws.data_ptr(), *sizes, centers.data_ptr(), within.data_ptr())
    return centers, within


def native_clustering() -> Callable[..., None] | None:
    """Return the native clustering of one start; None if not built. Arguments as in ``clusters.cpp``."""
    return routine("cluster", c_void_p, c_void_p, *(c_int64,) * 5, c_void_p, c_void_p)


def _start(rows: Tensor, draws: Tensor) -> Tensor:
    """Pick rows as centers, each with a chance that grows with its distance from the ones before (k-means++).

    Args:
        rows: ``(*trials, M, d)``.
        draws: ``(*trials, C)`` uniform numbers.

    Returns:
        ``(*trials, C, d)``.
    """
    far = torch.ones(rows.shape[:-1], dtype=rows.dtype, device=rows.device)
    centers: list[Tensor] = []
    for draw in draws.unbind(-1):
        upto = far.cumsum(-1)
        at = torch.searchsorted(upto, (draw.unsqueeze(-1) * upto[..., -1:]).contiguous(), right=True)
        center = gather_rows(rows, at.clamp_max(rows.shape[-2] - 1))
        away = (1 - (rows @ center.transpose(-1, -2)).squeeze(-1)).clamp_min(0.0)
        far = torch.minimum(far, away) if centers else away
        centers.append(center)
    return torch.cat(centers, -2)


def _settle(rows: Tensor, centers: Tensor, rounds: int) -> Tensor:
    """Move centers to the directions of their rows' sums until convergence; converged members stay."""
    settled = centers.flatten(0, -3).clone() if centers.dim() > 2 else centers.unsqueeze(0).clone()
    rows, live = rows.reshape(len(settled), *rows.shape[-2:]), settled
    moving = torch.arange(len(settled), device=rows.device)
    for _ in range(rounds):
        moved = _moved(rows, live)
        still = (moved != live).flatten(1).any(1)
        settled[moving] = moved
        if not still.any():
            break
        if 2 * int(still.sum()) <= len(moving):  # a few members take several times the rounds of the others
            moving, rows, moved = moving[still], rows[still], moved[still]
        live = moved
    return settled.view(centers.shape)


def _moved(rows: Tensor, centers: Tensor) -> Tensor:
    """Return the directions ``(T, C, d)`` of the sums of the rows ``(T, M, d)`` that are nearest to each center."""
    flat, count = rows.flatten(0, 1), centers.shape[:-1].numel()
    first = torch.arange(0, count, centers.shape[-2]).unsqueeze(-1)  # each member's centers lie together
    if centers.shape[-2] < NARROW:
        nearest = (centers @ rows.transpose(-1, -2)).max(-2).indices
    else:  # numpy's argmax takes a third of the time of torch's
        nearest = torch.from_numpy((rows @ centers.transpose(-1, -2)).numpy().argmax(-1))
    # A sum by index takes a tenth of the time of a product with one-hot rows.
    sums = flat.new_zeros(count, rows.shape[-1]).index_add_(0, (nearest + first).reshape(-1), flat)
    total = unit(sums.view_as(centers))
    return torch.where(total.abs().amax(-1, keepdim=True) > 0, total, centers)

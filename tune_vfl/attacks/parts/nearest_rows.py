"""Coordinates of rows in a graph that joins each row to its nearest ones: rows that short steps lead to stand close.

Rows of one class often form a strip of rows that are each near to the next one, as images of one digit do, while the
strip is long. A kernel on plain columns sees distances alone; these coordinates let a few known labels speak for all of
a strip.
"""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor
from torch.nn.functional import pad

from tune_vfl.attacks.parts.columns import WIDEST, evenly, principal, scaled

NEAREST = 8
"""Rows that a row is joined to."""
MOST = 3000
"""Rows, evenly spread, that the graph is made of; others stand where the nearest ones of these do."""
DAMPED = 0.99
"""Share of a label that each step passes on."""
_CLOSE, _LOOSE = 1e-9, 1e-3
MOST_KEPT = 30
"""Members whose coordinates are kept: all settings of a study have the same columns under one seed."""
_KEPT: dict[bytes, Tensor] = {}


def by_nearest_rows(columns: Tensor) -> Tensor:
    """Return coordinates ``(T, N, m)``, m at most 32, of rows by columns ``(T, N, ...)`` in units of their own.

    Products of coordinates are nearly those of the kernel ``1 / (1 - .99 S)`` of the normalized graph S, by the main
    eigenvectors of S. The mean square of a row is 1. Columns count as they are: pixels share a unit.

    Source: Zhou et al. 2004, Learning with Local and Global Consistency; Belkin and Niyogi 2003, Laplacian Eigenmaps.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks.parts.nearest_rows import by_nearest_rows
        >>> strips = torch.cat([torch.arange(40.0), 1000 + torch.arange(40.0)]).view(1, 80, 1)
        >>> found = by_nearest_rows(strips)[0]
        >>> bool(found[0] @ found[39] > found[0] @ found[40])
        True
    """
    members = []
    for member in columns.flatten(2).contiguous():
        key = blake2b(member.numpy().tobytes(), key=str(tuple(member.shape)).encode()).digest()
        if key not in _KEPT:
            if len(_KEPT) >= MOST_KEPT:
                del _KEPT[next(iter(_KEPT))]
            _KEPT[key] = _of_graph(principal(scaled(member), WIDEST))
        members.append(_KEPT[key])
    found = torch.stack(members)
    found = found - found.mean(-2, keepdim=True)
    size = found.square().sum(-1).mean(-1)[:, None, None].sqrt()
    return torch.where(size > 0, found / size.clamp(min=1e-30), 0.0)


def _of_graph(columns: Tensor) -> Tensor:
    """Return coordinates ``(N, m)`` of rows ``(N, d)``."""
    at = evenly(len(columns), MOST)
    graph, nearest = columns[at], min(NEAREST, len(at) - 1)
    if nearest < 1:
        return columns.new_zeros(len(columns), 1)
    distances, joined = torch.cdist(graph, graph).topk(nearest + 1, largest=False)
    distances, joined = distances[:, 1:], joined[:, 1:]  # the first one is the row itself
    width = distances[:, -1:].clamp(min=_CLOSE)
    found = _main_of(_weights(distances, width, joined), joined)
    if len(at) == len(columns):
        return found
    parts = [torch.cdist(some, graph).topk(nearest, largest=False) for some in torch.split(columns, MOST)]
    distances, joined = (torch.cat(part) for part in zip(*parts, strict=True))
    weights = _weights(distances, width, joined)
    near = (weights.unsqueeze(-1) * found[joined]).sum(1) / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    near[at] = found
    return near


def _weights(distances: Tensor, width: Tensor, joined: Tensor) -> Tensor:
    """Return weights ``(n, k)`` of the ways to rows ``(n, k)``: how near they are in units of both ends' neighbors.

    Args:
        distances: ``(n, k)``, the largest last.
        width: ``(m, 1)`` the distance of each row of the graph to the last of its own nearest ones.
        joined: ``(n, k)`` places in the graph.
    """
    return (-distances.square() / (distances[:, -1:].clamp(min=_CLOSE) * width[joined, 0])).exp()


def _main_of(weights: Tensor, joined: Tensor) -> Tensor:
    """Return coordinates ``(n, m)`` by the graph of weights ``(n, k)`` to rows ``(n, k)``.

    They are its main eigenvectors, each times the root of what a walk on the graph gathers along it.
    """
    import numpy as np
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    rows, each = joined.shape
    at = (np.arange(rows).repeat(each), joined.flatten().numpy())
    graph = csr_array((weights.flatten().double().numpy(), at), shape=(rows, rows))
    graph = graph.maximum(graph.T)
    root = diags_array(1 / np.sqrt(graph.sum(axis=1).clip(_CLOSE)))
    start = torch.rand(rows, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    most = max(1, min(WIDEST, rows // 2))
    try:
        values, axes = eigsh(csr_array(root @ graph @ root), k=most, which="LA", v0=start, tol=_LOOSE)
    except ArpackNoConvergence as stopped:  # those that were found say less, and nothing wrong
        values, axes = stopped.eigenvalues, stopped.eigenvectors
    gathered = 1 / (1 - DAMPED * torch.from_numpy(values).clamp(-1, 1))
    return pad((torch.from_numpy(axes) * gathered.sqrt()).float(), (0, most - len(values)))

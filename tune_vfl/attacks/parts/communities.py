"""Communities of a graph of rows that share nodes of trees, by modularity, without writing the graph down.

Two rows are joined by the sum, over the trees that put them into one node, of the trees' weights. What a row has to a
community is then a sum over trees of how many of the community's rows stand in its node.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.seeds import Stream

_SWEEPS, _LEAST, _NEGLIGIBLE = 30, 1e-9, 1e-6


def communities(groups: Tensor, weights: Tensor, stream: Stream) -> Tensor:
    """Return the community of each row, numbered from 0.

    They start as the nodes of the heaviest tree. Rows move to the community of the largest gain in modularity, a random
    half of them at a time, and communities join, the pair of the largest gain first, as long as there is one (Blondel
    et al. 2008, from larger pieces).

    Args:
        groups: ``(T, N)`` a node of each row in each tree.
        weights: ``(T,)`` of the trees; those below a millionth of the largest count for nothing.
        stream: which rows move at a time.

    Returns:
        ``(N,)`` int64.
    """
    heavy = weights > _NEGLIGIBLE * weights.max()
    groups, weights = groups[heavy], weights[heavy].double()
    nodes = int(groups.max()) + 1
    sizes = [torch.bincount(node, minlength=nodes).double() for node in groups]
    degrees = sum((w * size[node] for w, node, size in zip(weights, groups, sizes, strict=True)), torch.zeros(1))
    total = degrees.sum()
    at = numbered(groups[int(weights.argmax())])
    for _ in range(_SWEEPS):
        inside, held = one_hot(at).double(), torch.zeros(len(at), int(at.max()) + 1, dtype=torch.float64)
        counts = [torch.zeros(nodes, inside.shape[1]).double().index_add(0, node, inside) for node in groups]
        for weight, node, count in zip(weights, groups, counts, strict=True):
            held += weight * (count[node] - inside)
        share = degrees.unsqueeze(-1) * (degrees @ inside - degrees.unsqueeze(-1) * inside) / total
        gain = held - share
        better = gain.max(-1)
        moves = (better.values > gain.gather(-1, at.unsqueeze(-1)).squeeze(-1) + _LEAST) & (
            stream.uniform(len(at)) < 0.5
        )
        moved = numbered(torch.where(moves, better.indices, at))
        if not moves.any() and better.values.sum() <= gain.gather(-1, at.unsqueeze(-1)).sum() + _LEAST:
            break
        at = moved
    return joined(at, groups, weights, degrees)


def joined(at: Tensor, groups: Tensor, weights: Tensor, degrees: Tensor) -> Tensor:
    """Return communities ``(N,)`` after pairs of them joined for as long as modularity gains by one."""
    inside, nodes = one_hot(at).double(), int(groups.max()) + 1
    between = torch.zeros(inside.shape[1], inside.shape[1], dtype=torch.float64)
    for weight, node in zip(weights, groups, strict=True):
        count = torch.zeros(nodes, inside.shape[1]).double().index_add(0, node, inside)
        between += weight * count.mT @ count
    of = degrees @ inside
    name = torch.arange(len(of))
    while len(of) > 1:
        gain = (between - of.unsqueeze(-1) * of / degrees.sum()).fill_diagonal_(-torch.inf)
        best = int(gain.argmax())
        if gain.flatten()[best] <= _LEAST:
            break
        pair = sorted((best // len(of), best % len(of)))
        to = numbered(torch.arange(len(of)).masked_fill(torch.arange(len(of)) == pair[1], pair[0]))
        fold = one_hot(to).double()
        name, between, of = to[name], fold.mT @ between @ fold, of @ fold
    return name[at]


def numbered(names: Tensor) -> Tensor:
    """Return integers ``(N,)`` numbered from 0 on, in their order, without gaps."""
    return torch.from_numpy(np.unique(names.numpy(), return_inverse=True)[1])

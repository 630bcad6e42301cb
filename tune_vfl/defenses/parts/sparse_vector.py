"""The sparse vector technique: select entries above a noisy threshold that moves with each acceptance.

Entries are visited in order, and whether one is accepted depends on where the last acceptance before it was. Where
there is a compiler a loop over them does it. Elsewhere two steps without a loop: the threshold that would hold from a
place on is known for every place beforehand, so find for each the next acceptance if the search started there, then
follow these links from the first place on.

It is hand-written because no library has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p

import torch
from torch import Tensor

from tune_vfl.kernels.compiled import routine


def accepted_places(scores: Tensor, thresholds: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Visit the places in order, accepting at most ``counts`` of them.

    A place is accepted when its score reaches the current threshold. That is ``thresholds[s]``, s being the place after
    the last accepted one, at first 0.

    Args:
        scores: ``(T, n)``; NaN is never accepted.
        thresholds: ``(T, n)``.
        counts: T numbers from 0 to n.

    Returns:
        ``(T, n)`` bool, whether a place is accepted, and ``(T, 1)`` bool, whether as many as asked for are.
    """
    wanted = torch.tensor(counts, device=scores.device)
    visit = native_visit()
    if visit is None or scores.device.type != "cpu" or not scores.dtype == torch.float32 == thresholds.dtype:
        accepted = accepted_by_links(scores, thresholds, counts)
    else:
        accepted = torch.zeros(scores.shape, dtype=torch.bool)
        scores, thresholds = scores.detach().contiguous(), thresholds.detach().contiguous()
        visit(scores.data_ptr(), thresholds.data_ptr(), wanted.data_ptr(), *scores.shape, accepted.data_ptr())
    return accepted, (accepted.sum(-1) == wanted).unsqueeze(-1)


def native_visit() -> Callable[..., None] | None:
    """Return the native loop; None if not built. Arguments as of ``visit`` in ``visits.cpp``."""
    return routine("visit", c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p)


def accepted_by_links(scores: Tensor, thresholds: Tensor, counts: Sequence[int]) -> Tensor:
    """Return :func:`accepted_places` by operations whose shapes do not depend on the values."""
    trials, n = scores.shape
    found = next_acceptances(scores, thresholds)
    # Place n stands for "none left" and leads to itself; after an acceptance at t the search goes on at t + 1.
    end = torch.full((trials, 1), n, dtype=torch.int64, device=scores.device)
    found = torch.cat([found, end], dim=-1)
    jump = (found + 1).clamp_max(n)
    path = torch.zeros((trials, 1), dtype=torch.int64, device=scores.device)
    while path.shape[-1] < max(counts):
        path = torch.cat([path, jump.gather(-1, path)], dim=-1)
        jump = jump.gather(-1, jump)
    wanted = torch.tensor(counts, device=scores.device).unsqueeze(-1)
    early = torch.arange(path.shape[-1], device=scores.device) < wanted
    taken = found.gather(-1, path).masked_fill(~early, n)
    return torch.zeros((trials, n + 1), dtype=torch.bool, device=scores.device).scatter_(-1, taken, True)[:, :n]


def next_acceptances(scores: Tensor, thresholds: Tensor) -> Tensor:
    """Return, for each place s, the first place t >= s with ``scores[t] >= thresholds[s]``; n where there is none.

    Args:
        scores: ``(T, n)``; NaN is never accepted.
        thresholds: ``(T, n)``; no score reaches NaN.

    Returns:
        ``(T, n)`` int64.
    """
    n = scores.shape[-1]
    thresholds = thresholds.masked_fill(thresholds.isnan(), torch.inf)
    maxima = [torch.nan_to_num(scores, nan=-torch.inf)]  # level j: the largest of the 2^j scores from a place on
    while 2 ** len(maxima) <= n:
        last, reach = maxima[-1], 2 ** (len(maxima) - 1)
        maxima.append(torch.cat([torch.maximum(last[:, :-reach], last[:, reach:]), last[:, -reach:]], dim=-1))
    place = torch.arange(n, device=scores.device).expand(scores.shape)
    for level in range(len(maxima) - 1, -1, -1):
        below = maxima[level].gather(-1, place.clamp_max(n - 1)) < thresholds
        place = place + (below << level)
    return place.clamp_max(n)

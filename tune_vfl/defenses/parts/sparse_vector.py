"""The sparse vector technique without a loop over entries: which are accepted when each acceptance moves the threshold.

Entries are visited in order, and whether one is accepted depends on where the last acceptance before it was. But the
threshold that would hold from a place on is known for every place beforehand. So two steps without a loop do it: find
for each place the next acceptance if the search started there, then follow these links from the first place on.

It is hand-written because no library has it. At 256 x 128 entries on a CPU a loop over the entries takes 8 times as
long, and what runs on a device (:func:`accepted_on_device`) 4 times (``python -m benchmarks.selection``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NEARBY = 16
"""On a CPU each place first compares with so many scores from itself on; few have to look further."""
LARGEST_WINDOWS = 2
"""Those few compare with at most so many scores at once, in units of n; beyond that a table of maxima is cheaper."""
STRIDES = 5
"""On a CPU links are first followed 2^5 at a time, then the places in between are filled in."""
Places: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.floating[Any]]


def next_acceptances(scores: Tensor, thresholds: Tensor) -> Tensor:
    """Return, for each place s, the first place t >= s with ``scores[t] >= thresholds[s]``; n where there is none.

    Args:
        scores: ``(T, n)``; NaN is never accepted.
        thresholds: ``(T, n)``.

    Returns:
        ``(T, n)`` int64.
    """
    n = scores.shape[-1]
    maxima = [torch.nan_to_num(scores, nan=-torch.inf)]  # level j: the largest of the 2^j scores from a place on
    while 2 ** len(maxima) <= n:
        last, reach = maxima[-1], 2 ** (len(maxima) - 1)
        maxima.append(torch.cat([torch.maximum(last[:, :-reach], last[:, reach:]), last[:, -reach:]], dim=-1))
    place = torch.arange(n, device=scores.device).expand(scores.shape)
    for level in range(len(maxima) - 1, -1, -1):
        below = maxima[level].gather(-1, place.clamp_max(n - 1)) < thresholds
        place = place + (below << level)
    return place.clamp_max(n)


def accepted_places(scores: Tensor, thresholds: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Visit the places in order, accepting at most ``counts`` of them.

    A place is accepted when its score reaches the current threshold. That is ``thresholds[s]``, s being the place after
    the last accepted one, at first 0.

    Args:
        scores: ``(T, n)``.
        thresholds: ``(T, n)``.
        counts: T numbers from 0 to n.

    Returns:
        ``(T, n)`` bool, whether a place is accepted, and ``(T, 1)`` bool, whether as many as asked for are.
    """
    if scores.device.type == "cpu":
        members = zip(scores.detach().numpy(), thresholds.detach().numpy(), counts, strict=True)
        chosen = torch.from_numpy(np.stack([accepted_on_host(*member) for member in members]))
        return chosen, (chosen.sum(-1) == torch.tensor(counts)).unsqueeze(-1)
    return accepted_on_device(scores, thresholds, counts)


def accepted_on_device(scores: Tensor, thresholds: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Do what :func:`accepted_places` does by operations whose shapes do not depend on the numbers."""
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
    accepted = torch.zeros((trials, n + 1), dtype=torch.bool, device=scores.device).scatter_(-1, taken, True)[:, :n]
    return accepted, accepted.sum(-1, keepdim=True) == wanted


def next_on_host(scores: Numbers, thresholds: Numbers) -> Places:
    """Return what :func:`next_acceptances` does, for one member: ``(n,)`` numbers in, ``(n,)`` places out."""
    n = len(scores)
    # Shifted comparisons of whole arrays: all places compare with the score `ahead` of them at once, whether or not
    # they have found theirs. That is cheaper than keeping a list of the places that have not.
    found, steps = scores >= thresholds, np.zeros(n, dtype=np.uint8)
    for ahead in range(1, min(NEARBY, n)):
        np.add(steps, (~found).view(np.uint8), out=steps)
        found[:-ahead] |= scores[ahead:] >= thresholds[:-ahead]
    places = np.arange(n)
    places += steps
    pending = np.flatnonzero(~found)
    if len(pending):
        places[pending] = _far_on_host(scores, thresholds.take(pending), np.minimum(pending + NEARBY, n))
    return places


def _far_on_host(scores: Numbers, thresholds: Numbers, start: Places) -> Places:
    """Return the first places from ``start`` on whose scores reach the thresholds, both ``(m,)``; n where none does.

    Few places have to look far, and making the table for them costs a fifth of everything else. So they look through
    windows of twice the width each time, and use the table only where the windows together grow too large.
    """
    n, width = len(scores), NEARBY
    places, waiting = start.copy(), np.arange(len(start))
    while 0 < len(waiting) * width <= LARGEST_WINDOWS * n:
        first = places[waiting]
        # Beyond the end a window repeats the last score, which changes nothing: the first that reaches counts.
        reached = scores.take(first[:, None] + np.arange(width), mode="clip") >= thresholds[waiting, None]
        ahead = reached.argmax(-1)
        hit = reached[np.arange(len(waiting)), ahead]
        places[waiting] += np.where(hit, ahead, width)
        waiting, width = waiting[~hit & (first + width < n)], 2 * width
    if len(waiting):
        places[waiting] = _by_table(scores, thresholds[waiting], places[waiting])
    return np.minimum(places, n)


def _by_table(scores: Numbers, thresholds: Numbers, start: Places) -> Places:
    """Do what :func:`_far_on_host` does at a cost that hardly depends on how many places look."""
    n = len(scores)
    # Level j holds the largest of the 2^j scores from each place on; a stretch whose largest is too low is skipped.
    maxima = [np.where(np.isnan(scores), -np.inf, scores)]
    while 2 ** len(maxima) <= n:
        last, reach = maxima[-1], 2 ** (len(maxima) - 1)
        maxima.append(np.concatenate([np.maximum(last[:-reach], last[reach:]), last[-reach:]]))
    place = start
    for level in range(len(maxima) - 1, -1, -1):
        below = maxima[level].take(np.minimum(place, n - 1)) < thresholds
        place = place + (below.astype(np.int64) << level)
    return np.minimum(place, n)


def accepted_on_host(scores: Numbers, thresholds: Numbers, count: int) -> NDArray[np.bool_]:
    """Return what :func:`accepted_places` does, for one member: ``(n,)`` whether a place is accepted."""
    n = len(scores)
    found = np.append(next_on_host(scores, thresholds), n)  # place n stands for "none left" and leads to itself
    accepted = np.zeros(n + 1, dtype=np.bool_)
    accepted[found.take(_path(np.minimum(found + 1, n), count))] = True
    return accepted[:n]


def _path(jump: Places, count: int) -> Places:
    """Return the first ``count`` places of the path from 0 that ``jump`` leads along, ``(n + 1,)``; it ends at n."""
    strides = [jump]
    for _ in range(STRIDES):
        # No place is out of range; mode="clip" is the faster way to take, as numpy then checks none of them.
        strides.append(strides[-1].take(strides[-1], mode="clip"))
    far, end, stop, stops = strides.pop(), len(jump) - 1, 0, [0]
    while stop < end and len(stops) << STRIDES < count:
        stop = far.item(stop)
        stops.append(stop)
    path = np.array(stops)
    for stride in reversed(strides):
        path = np.stack([path, stride.take(path, mode="clip")], axis=-1).ravel()
    return path[:count]

"""Random numbers in the place of a gradient, in the gradient's own order: the shared part of SGSub and FLSG."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.defenses.parts.mahalanobis import lengths, whitening
from tune_vfl.seeds import Stream

ENTRIES_AT_ONCE = 2**16
"""Random numbers of a member in memory at a time, after the first candidate, which is mostly accepted."""
Members: TypeAlias = Tensor | slice
"""Which members of a pack: the M numbers of some, or all T of them."""
EVERYONE = slice(None)


class Rule(NamedTuple):
    """When a candidate is close enough, a number per member.

    Attributes:
        tau: ``(T,)`` largest distance that is accepted.
        cosine: ``(T,)`` weight of the cosine distance.
        mahalanobis: ``(T,)`` weight of the Mahalanobis distance; None leaves it out.
        max_tries: candidates per member.
    """

    tau: Tensor
    cosine: Tensor
    mahalanobis: Tensor | None
    max_tries: list[int]


def stable_order(values: Tensor) -> Tensor:
    """Return the indices ``(T, n)`` that sort each row upwards; of equal numbers the first comes first.

    Args:
        values: ``(T, n)``.
    """
    if values.device.type != "cpu" or values.dtype != torch.float32:
        return values.argsort(dim=-1, stable=True)
    bits = (values + 0.0).view(torch.int32)  # adding 0 turns -0 into 0
    upwards = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    order = torch.empty(values.shape, dtype=torch.int64)
    for keys, places in zip(upwards.numpy(), order.numpy(), strict=True):
        _radix_order(keys, places)
    return order


def _radix_order(keys: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    """Sort in two passes of 16 bits, which numpy has for small integers: linear time, a fifth of torch's."""
    by_low = (keys & 0xFFFF).astype(np.uint16).argsort(kind="stable")
    # No place is out of range; mode="clip" is the faster way to take, as numpy then checks none of them.
    high = (keys >> 16).astype(np.int16).take(by_low, mode="clip")
    by_low.take(high.argsort(kind="stable"), out=out, mode="clip")


class _Target:
    """The gradients of a step, arranged for comparison with candidates: ``T`` members of ``n = B d`` entries.

    Args:
        grad: ``(*trials, B, d)``.
        rule: the definition of close.
    """

    def __init__(self, grad: Tensor, rule: Rule) -> None:
        self._shape, self._rule = grad.shape, rule
        flat = grad.detach().reshape(-1, grad.shape[-2] * grad.shape[-1])
        largest = flat.abs().amax(-1, keepdim=True)
        self._scale = torch.where(largest > 0, largest, 1.0)
        self.values = flat / self._scale  # of size 1, so that squares of tiny gradients do not vanish
        self._order = stable_order(self.values)
        self._ends = self.values.gather(-1, self._order[:, [0, -1]]).unsqueeze(1)
        self._norm = torch.linalg.vector_norm(self.values, dim=-1, keepdim=True)
        self._mean = self.values.mean(-1).view(-1, 1, 1)
        apart = self.values - self._mean.view(-1, 1)
        norm: Tensor = torch.linalg.vector_norm(apart, dim=-1)
        self._deviation = norm.div_(math.sqrt(apart.shape[-1])).view(-1, 1, 1)
        rows = self.values.view(-1, *grad.shape[-2:])
        self._whitening = None if rule.mahalanobis is None else whitening(rows)

    def candidates(self, stream: Stream, tries: int, members: Members) -> Tensor:
        """Draw ``(M, tries, n)`` candidates with the gradient's mean, deviation and order, within its range."""
        draws = stream.sorted_normal(tries, self.values.shape[-1]).view(-1, tries, self.values.shape[-1])[members]
        drawn = draws.to(self.values.dtype).mul_(self._deviation[members]).add_(self._mean[members])
        low, high = self._ends[members].split_with_sizes((1, 1), dim=-1)
        within = torch.minimum(torch.maximum(drawn, low, out=drawn), high, out=drawn)
        places = self._order[members].unsqueeze(1).expand_as(within)
        return torch.empty_like(within).scatter_(-1, places, within)

    def distances(self, candidates: Tensor, members: Members) -> Tensor:
        """Return ``(M, tries)``: how far candidates are from the members' gradients."""
        products = torch.linalg.vecdot(candidates, self.values[members].unsqueeze(1))
        norms: Tensor = torch.linalg.vector_norm(candidates, dim=-1) * self._norm[members]
        far: Tensor = self._rule.cosine[members].unsqueeze(-1) * (1 - products / norms.clamp_min(1e-30))
        if self._rule.mahalanobis is None or self._whitening is None:
            return far
        weight = self._rule.mahalanobis[members].unsqueeze(-1)
        return far + weight * self._mahalanobis(candidates, self._whitening[members], members)

    def _mahalanobis(self, candidates: Tensor, white: Tensor, members: Members) -> Tensor:
        batch, d = self._shape[-2:]
        count, tries, _ = candidates.shape
        apart = candidates - self.values[members].unsqueeze(1)
        return lengths(white, apart.view(count, tries * batch, d)).view(count, tries, batch).mean(-1) / math.sqrt(d)

    def sent(self, candidate: Tensor) -> Tensor:
        """Return candidates ``(T, n)`` in the shape and units of the gradient."""
        return (candidate * self._scale).view(self._shape)


class _BestCandidate:
    """The candidate that each member would send so far.

    Args:
        rule: the definition of close enough, and the number of candidates for each row.
        candidates: ``(T, 1, n)``, the first of each.
        distances: ``(T, 1)``.
    """

    def __init__(self, rule: Rule, candidates: Tensor, distances: Tensor) -> None:
        self._rule = rule
        self.chosen, self._distance = candidates.squeeze(1), distances.squeeze(1)
        self.accepted = self._distance <= rule.tau
        self.tried = 1

    def waiting(self) -> Tensor:
        """Return the numbers ``(M,)`` of the members without an accepted candidate that have tries left."""
        allowed = torch.tensor(self._rule.max_tries, device=self.accepted.device)
        return (~self.accepted & (allowed > self.tried)).nonzero().squeeze(-1)

    def look_at(self, members: Tensor, candidates: Tensor, distances: Tensor) -> None:
        """Take the first of ``(M, tries, n)`` that is close enough, else the closest one so far."""
        numbers = torch.arange(self.tried, self.tried + candidates.shape[1], device=distances.device)
        allowed = torch.tensor(self._rule.max_tries, device=distances.device)[members]
        distances = distances.masked_fill(numbers >= allowed.unsqueeze(-1), math.inf)
        close = distances <= self._rule.tau[members].unsqueeze(-1)
        found = close.any(-1)
        choice = torch.where(found, close.int().argmax(-1), distances.argmin(-1))
        distance = distances.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
        better = (found | (distance < self._distance[members])).nonzero().squeeze(-1)
        self.chosen[members[better]] = candidates[better, choice[better]]
        self._distance[members[better]] = distance[better]
        self.accepted[members] = found
        self.tried += candidates.shape[1]


def substitute(grad: Tensor, stream: Stream, rule: Rule) -> tuple[Tensor, Tensor]:
    """Return random numbers with the mean, deviation, range and order of the gradient's entries.

    Candidates are independent normal numbers, clamped to the gradient's range and put into the order of its entries.
    The first one within ``rule.tau`` of the gradient is taken, else the closest of ``rule.max_tries``.

    Args:
        grad: ``(*trials, B, d)``.
        stream: for this call alone, as how many numbers are drawn depends on the members.
        rule: how candidates are judged.

    Returns:
        The substitute ``(*trials, B, d)``, and ``(T,)`` whether it was within tau.
    """
    target = _Target(grad, rule)
    first = target.candidates(stream, 1, EVERYONE)
    search = _BestCandidate(rule, first, target.distances(first, EVERYONE))
    room = max(ENTRIES_AT_ONCE // target.values.shape[-1], 1)
    # Numbers are drawn for all members, but only those that still look have candidates made of them and judged.
    while len(members := search.waiting()):
        candidates = target.candidates(stream, min(room, max(rule.max_tries) - search.tried), members)
        search.look_at(members, candidates, target.distances(candidates, members))
    return target.sent(search.chosen), search.accepted

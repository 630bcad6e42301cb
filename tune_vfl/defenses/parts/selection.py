"""The number at one place in the order of many, and what lies beyond it: exact, and cheap where little has changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROOM = 32
"""The first bounds around a number leave room for a share of 1/32 of all numbers on either side."""
NARROWER, WIDER, AHEAD = 0.9, 2.0, 4.0
"""What the bounds' width is multiplied by after a number was found between them, and after one was not; the least width
in steps as long as the last one."""
FARTHEST = 3e38
"""Bounds end here, so that they are numbers in single precision; what lies beyond is found by partitioning."""
Numbers: TypeAlias = NDArray[np.floating[Any]]


class Near:
    """The number at one place in the order of numbers that change little from call to call.

    It is looked for among the few between two bounds around the last one, and how many lie below them is counted. The
    answer is exact: where it lies outside of the bounds, all are partitioned, and the next bounds are wider.
    """

    def __init__(self) -> None:
        self._center, self._reach = math.nan, 0.0

    def at(self, place: int, numbers: Numbers) -> float:
        """Return what is at ``place``, from 0 for the smallest, of ``(M,)`` numbers; NaN counts as the largest."""
        low, high = (min(max(self._center + side, -FARTHEST), FARTHEST) for side in (-self._reach, self._reach))
        under = numbers < low
        between = numbers.compress(under ^ (numbers <= high))
        inside = place - int(np.count_nonzero(under))
        if 0 <= inside < len(between):
            between.partition(inside)
            found = float(between[inside])
            self._center, self._reach = found, max(NARROWER * self._reach, AHEAD * abs(found - self._center))
        else:
            self._center, self._reach = self._among_all(place, numbers)
        return self._center

    def _among_all(self, place: int, numbers: Numbers) -> tuple[float, float]:
        ends = max(place - len(numbers) // ROOM, 0), min(place + len(numbers) // ROOM, len(numbers) - 1)
        low, found, high = np.partition(numbers, [ends[0], place, ends[1]]).take([ends[0], place, ends[1]]).tolist()
        if not (low > -math.inf and high < math.inf):
            return found, 0.0
        # The nearer side: towards the end of a long tail the other one would take in nearly everything.
        room = min((side for side in (found - low, high - found) if side > 0), default=0.0)
        return found, max(room, WIDER * self._reach)


def top_magnitudes(rows: Tensor, ranks: Sequence[int]) -> Tensor:
    """Return each row's n-th largest magnitude, on any device.

    Args:
        rows: ``(T, M)``.
        ranks: T numbers n; 0 gives infinity, more than M give -1.

    Returns:
        ``(T,)``.
    """
    size = rows.shape[-1]
    ranked = rows.detach().abs().sort(dim=-1, descending=True).values
    n = torch.tensor(ranks, device=rows.device)
    nth = ranked.gather(-1, (n - 1).clamp(0, size - 1).unsqueeze(-1)).squeeze(-1)
    return nth.masked_fill(n == 0, math.inf).masked_fill(n > size, -1.0)


class Largest:
    """The numbers of the largest magnitudes, for calls that follow each other, like those of steps."""

    def __init__(self) -> None:
        self._near: dict[tuple[int, int], list[Near]] = {}

    def limits(self, rows: Tensor, ranks: Sequence[int], *, party: int = 0) -> list[float]:
        """Return what :func:`top_magnitudes` does, on a CPU.

        Args:
            rows: ``(T, M)``.
            ranks: T numbers n.
            party: whose numbers they are; only calls for the same party and M are expected to be alike.
        """
        size = rows.shape[-1]
        near = self._near.setdefault((party, size), [Near() for _ in ranks])
        members = zip(np.abs(rows.detach().numpy()), ranks, near, strict=True)
        return [(of.at(size - n, row) if n else math.inf) if n <= size else -1.0 for row, n, of in members]

    def only(self, rows: Tensor, ranks: Sequence[int], *, party: int, ties: bool) -> Tensor:
        """Return ``rows`` with 0 for what is not larger than the n-th largest magnitude, NaN being as it was.

        Args:
            rows: ``(T, M)``; what is kept keeps its gradient.
            ranks: T numbers n; 0 keeps nothing, more than M keep everything.
            party: as for :meth:`limits`.
            ties: whether what equals the n-th largest is kept.
        """
        if rows.device.type != "cpu":
            limit, magnitudes = top_magnitudes(rows, ranks).unsqueeze(-1), rows.detach().abs()
            return rows.masked_fill(magnitudes < limit if ties else magnitudes <= limit, 0)
        limits = self.limits(rows, ranks, party=party)
        if ties:
            # What is below a number is at most the next smaller one that there is.
            limits = np.nextafter(np.array(limits, dtype=rows.detach().numpy().dtype), -np.inf).tolist()
        # One pass; a comparison and a choice are three slower ones.
        kept = [torch.hardshrink(row, limit) for row, limit in zip(rows, limits, strict=True)]
        return kept[0].unsqueeze(0) if len(kept) == 1 else torch.stack(kept)

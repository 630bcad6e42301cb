"""The largest magnitudes of a batch: the one of a given rank, and the batch with everything below it set to zero.

On a CPU numpy partitions each member's numbers instead of sorting them. At 256 x 128 entries ``torch.kthvalue`` takes
3.7 times as long and a sort 17 times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def top_magnitudes(rows: Tensor, ranks: Sequence[int]) -> Tensor:
    """Return each row's n-th largest magnitude; NaN counts as the largest.

    Args:
        rows: ``(T, M)``.
        ranks: T numbers n; 0 gives infinity, more than M give -1.

    Returns:
        ``(T,)``.
    """
    if rows.device.type != "cpu":
        return top_magnitudes_on_device(rows, ranks)
    members = zip(rows.detach().abs().numpy(), ranks, strict=True)
    return torch.tensor([_nth_largest(row, n) for row, n in members], dtype=rows.dtype)


def _nth_largest(numbers: NDArray[np.floating[Any]], n: int) -> float:
    """Return the n-th largest of ``(M,)`` numbers, reordering them in place."""
    place = len(numbers) - n
    if n == 0 or place < 0:
        return math.inf if n == 0 else -1.0
    numbers.partition(place)
    return float(numbers[place])


def top_magnitudes_on_device(rows: Tensor, ranks: Sequence[int]) -> Tensor:
    """Return :func:`top_magnitudes`, for all members at once."""
    size = rows.shape[-1]
    ranked = rows.detach().abs().sort(dim=-1, descending=True).values
    n = torch.tensor(ranks, device=rows.device)
    nth = ranked.gather(-1, (n - 1).clamp(0, size - 1).unsqueeze(-1)).squeeze(-1)
    return nth.masked_fill(n == 0, math.inf).masked_fill(n > size, -1.0)


def keep_largest(rows: Tensor, ranks: Sequence[int], *, ties: bool) -> Tensor:
    """Return ``rows`` with 0 for entries not larger than the n-th largest magnitude; NaN stays NaN.

    Args:
        rows: ``(T, M)``; remaining entries keep their gradient.
        ranks: T numbers n; 0 keeps nothing, more than M keep everything.
        ties: whether entries equal to the n-th largest stay.
    """
    limits = top_magnitudes(rows, ranks)
    if ties:
        # Not larger than the number right below the limit means smaller than the limit.
        limits = torch.nextafter(limits, torch.full_like(limits, -math.inf))
    if rows.device.type != "cpu":
        return rows.masked_fill(rows.detach().abs() <= limits.unsqueeze(-1), 0)
    # hardshrink compares and sets to zero in one pass over the entries, but takes one limit for all members.
    kept = [torch.hardshrink(row, limit) for row, limit in zip(rows, limits.tolist(), strict=True)]
    return kept[0].unsqueeze(0) if len(kept) == 1 else torch.stack(kept)

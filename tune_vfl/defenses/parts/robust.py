"""What is far out among the numbers of the last steps: a threshold from their median and median deviation."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from torch import Tensor

from tune_vfl.defenses.parts.selection import Near, top_magnitudes

WINDOW = 100
"""How many steps are remembered."""
SHARE = 10
"""A threshold is found anew when a tenth of the remembered steps came after the last one was."""
DEVIATIONS = 3 * 1.4826
"""Median absolute deviations above the median; 1.4826 of them are a normal law's standard deviation."""


def lower_median(values: Tensor) -> Tensor:
    """Return the median of each row ``(T, M)``, not negative, of an even number the lower one of two: ``(T,)``."""
    return top_magnitudes(values, [values.shape[-1] // 2 + 1] * values.shape[0])


def robust_threshold(values: Tensor) -> Tensor:
    """Return median + 3 * 1.4826 * (median absolute deviation) of each row ``(T, M)``: ``(T,)``."""
    median = lower_median(values)
    return median + DEVIATIONS * lower_median((values - median.unsqueeze(-1)).abs())


class Window:
    """The numbers of the last steps, none negative, and the threshold that they give."""

    def __init__(self) -> None:
        self._counts: deque[int] = deque()
        self._held = torch.zeros(0, 0)
        self._start = self._end = 0
        self._near: list[tuple[Near, Near]] = []
        self._last = torch.zeros(0)
        self._age = 0

    def __len__(self) -> int:
        return len(self._counts)

    def threshold(self, values: Tensor) -> Tensor:
        """Take in a step's ``(T, m)`` numbers, which may be of another count each time, and return ``(T,)``.

        Up to 19 steps the threshold is that of all of them; of 100 steps it is up to 9 steps old.
        """
        seen = self._take_in(values)
        self._age += 1
        if self._age >= max(len(self) // SHARE, 1):
            self._last, self._age = self._found(seen), 0
        return self._last

    def _found(self, seen: Tensor) -> Tensor:
        if seen.device.type != "cpu":
            return robust_threshold(seen)
        self._near = self._near or [(Near(), Near()) for _ in seen]
        medians: list[float] = []
        deviations: list[float] = []
        for row, (of_numbers, of_deviations) in zip(seen.numpy(), self._near, strict=True):
            place = (len(row) - 1) // 2  # the lower one of two in the middle, as lower_median has it
            medians.append(of_numbers.at(place, row))
            apart = row - row.dtype.type(medians[-1])
            deviations.append(of_deviations.at(place, np.abs(apart, out=apart)))
        found = torch.tensor([medians, deviations], dtype=seen.dtype)
        return found[0] + DEVIATIONS * found[1]

    def _take_in(self, values: Tensor) -> Tensor:
        """Return the numbers of the last steps side by side: a window that slides over a store of twice its size."""
        if len(self._counts) == WINDOW:
            self._start += self._counts.popleft()
        count = values.shape[-1]
        if self._end + count > self._held.shape[-1]:
            kept = self._held[:, self._start : self._end] if self._counts else values[:, :0]
            room = 2 * max(kept.shape[-1] + count, WINDOW * count)
            self._held = torch.cat([kept, values.new_empty(len(values), room - kept.shape[-1])], dim=-1)
            self._start, self._end = 0, kept.shape[-1]
        self._held[:, self._end : self._end + count] = values
        self._end += count
        self._counts.append(count)
        return self._held[:, self._start : self._end]

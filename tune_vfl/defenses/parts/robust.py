"""Outlier detection over recent steps: a threshold from the median and the median absolute deviation."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from tune_vfl.defenses.parts.selection import top_magnitudes

WINDOW = 100
"""Number of steps in the window."""
SHARE = 10
"""A new threshold is computed once a tenth of the remembered steps are newer than the last one."""
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
    """A window of non-negative numbers of the last steps, and the threshold that they give."""

    def __init__(self) -> None:
        self._counts: deque[int] = deque()
        self._held = torch.zeros(0, 0)
        self._start = self._end = 0
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
            self._last, self._age = robust_threshold(seen), 0
        return self._last

    def _take_in(self, values: Tensor) -> Tensor:
        """Return the numbers of the last steps side by side: a window that slides over a buffer of twice its size."""
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

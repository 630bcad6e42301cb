"""What is far out among the numbers of the last steps: a threshold from their median and median deviation."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from tune_vfl.defenses.gradient_compression import top_thresholds

WINDOW = 100
"""How many steps are remembered."""
DEVIATIONS = 3 * 1.4826
"""Median absolute deviations above the median; 1.4826 of them are a normal law's standard deviation."""


def lower_median(values: Tensor) -> Tensor:
    """Return the median of each row ``(T, M)``, of an even number the lower of the two in the middle: ``(T,)``."""
    return top_thresholds(values, [values.shape[-1] // 2 + 1] * values.shape[0]).to(values.device)


def robust_threshold(values: Tensor) -> Tensor:
    """Return median + 3 * 1.4826 * (median absolute deviation) of each row ``(T, M)``: ``(T,)``."""
    median = lower_median(values)
    return median + DEVIATIONS * lower_median((values - median.unsqueeze(-1)).abs())


class Window:
    """The numbers of the last steps, and the threshold that they give."""

    def __init__(self) -> None:
        self._steps: deque[Tensor] = deque(maxlen=WINDOW)

    def __len__(self) -> int:
        return len(self._steps)

    def threshold(self, values: Tensor) -> Tensor:
        """Take in a step's ``(T, m)`` numbers, which may be of another count each time, and return ``(T,)``."""
        self._steps.append(values)
        return robust_threshold(torch.cat(list(self._steps), dim=-1))

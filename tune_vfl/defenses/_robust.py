"""What is far out among the numbers of the last steps: a threshold from their median and median deviation."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.defenses.gradient_compression import top_thresholds

WINDOW = 100
"""How many steps are remembered."""
DEVIATIONS = 3 * 1.4826
"""Median absolute deviations above the median; 1.4826 of them are a normal law's standard deviation."""

ROOM = 32
"""Bounds around a median leave room for a share of 1/32 of the numbers on either side."""
Numbers: TypeAlias = NDArray[np.floating[Any]]


def lower_median(values: Tensor) -> Tensor:
    """Return the median of each row ``(T, M)``, of an even number the lower of the two in the middle: ``(T,)``."""
    return top_thresholds(values, [values.shape[-1] // 2 + 1] * values.shape[0]).to(values.device)


def robust_threshold(values: Tensor) -> Tensor:
    """Return median + 3 * 1.4826 * (median absolute deviation) of each row ``(T, M)``: ``(T,)``."""
    median = lower_median(values)
    return median + DEVIATIONS * lower_median((values - median.unsqueeze(-1)).abs())


class Near:
    """The number at one place in the order of numbers that change little from call to call.

    It is looked for among the few between two bounds, taken around it when all were last partitioned; how many lie
    below them is counted. The answer is exact: where it lies outside of the bounds, all are partitioned again.
    """

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf

    def at(self, place: int, numbers: Numbers) -> float:
        """Return what is at ``place``, from 0 for the smallest, of ``(M,)`` numbers; NaN counts as the largest."""
        below = int(np.count_nonzero(numbers < self._low))
        between = numbers.take(np.flatnonzero((numbers >= self._low) & (numbers <= self._high)))
        if 0 <= place - below < len(between):
            between.partition(place - below)
            return float(between[place - below])
        ends = max(place - len(numbers) // ROOM, 0), min(place + len(numbers) // ROOM, len(numbers) - 1)
        ordered = np.partition(numbers, [ends[0], place, ends[1]])
        self._low, self._high = float(ordered[ends[0]]), float(ordered[ends[1]])
        return float(ordered[place])


class Window:
    """The numbers of the last steps, and the threshold that they give."""

    def __init__(self) -> None:
        self._steps: deque[Tensor] = deque(maxlen=WINDOW)
        self._near: list[tuple[Near, Near]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def threshold(self, values: Tensor) -> Tensor:
        """Take in a step's ``(T, m)`` numbers, which may be of another count each time, and return ``(T,)``."""
        self._steps.append(values)
        seen = torch.cat(list(self._steps), dim=-1)
        if seen.device.type != "cpu":
            return robust_threshold(seen)
        self._near = self._near or [(Near(), Near()) for _ in seen]
        medians: list[float] = []
        deviations: list[float] = []
        for row, (of_numbers, of_deviations) in zip(seen.numpy(), self._near, strict=True):
            place = (len(row) - 1) // 2  # the lower one of two in the middle, as lower_median has it
            medians.append(of_numbers.at(place, row))
            deviations.append(of_deviations.at(place, np.abs(row - row.dtype.type(medians[-1]))))
        found = torch.tensor([medians, deviations], dtype=seen.dtype)
        return found[0] + DEVIATIONS * found[1]

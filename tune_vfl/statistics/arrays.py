"""Validation of the estimates' inputs: arrays of the right shape without missing values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tune_vfl.errors import ShapeError, UsageError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def finite(values: ArrayLike, axes: str, what: str) -> Floats:
    """Return ``values`` as a float array with the axes that ``axes`` names.

    Args:
        values: any nested numbers.
        axes: one word an axis, such as ``"settings seeds"``.
        what: the numbers' name, in messages.

    Raises:
        ShapeError: for another number of axes, or an empty axis.
        UsageError: for a number that is not finite; the message says where the first one is. A mean over what is left
            would look like one over everything.
    """
    array = np.asarray(values, dtype=np.float64)
    names = axes.split()
    if array.ndim != len(names) or not array.size:
        raise ShapeError(f"{what}: expected ({', '.join(names)}), none of them empty, got shape {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(f"{name} {place}" for name, place in zip(names, bad[0].tolist(), strict=True))
        raise UsageError(f"{what}: {array[tuple(bad[0])]} at {where}; leave out what has no number")
    return array


def seeds_of(values: Floats, what: str) -> int:
    """Return the length of the last axis, the seeds.

    Raises:
        UsageError: for a single seed, which says nothing about the spread over seeds.
    """
    seeds = values.shape[-1]
    if seeds < 2:
        raise UsageError(f"{what}: an interval needs at least 2 seeds, got {seeds}")
    return int(seeds)

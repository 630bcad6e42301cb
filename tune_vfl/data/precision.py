"""Conversion of a column to float32 without the loss of its differences: centered where rounding would merge them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tune_vfl.statistics.arrays import Floats

LARGEST = float(np.finfo(np.float32).max)
# A larger share of different values that rounding makes equal is too much.
_MERGED = 0.1
_LOOKED_AT = 50_000
# Rounding errors below this share of the standard deviation do not matter.
_ERROR = 2.0**-14
# Columns whose values are typically larger than this have a unit of their own: no slip of the pen made them so large.
_OWN_UNIT = 2.0**100


def too_large(numbers: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return ``(n,)`` where a number is infinite, or exceeds float32 in a column of ordinary numbers."""
    sizes = np.abs(numbers)
    if sizes.max(initial=0.0) <= LARGEST:  # NaN is not
        return np.zeros(len(numbers), dtype=bool)
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    typical = float(np.quantile(known, 0.5, method="lower")) if len(known) else 0.0
    return ~np.isfinite(numbers) | ((sizes > LARGEST) & (typical < _OWN_UNIT))


def fitted(numbers: Floats) -> tuple[np.ndarray[Any, np.dtype[np.float32]], tuple[int, int] | None]:
    """Return finite numbers ``(n,)`` as float32, and how many different ones are left of how many if too few are.

    The numbers stay as they are where float32 tells them apart. Else, as with seconds since 1970, their median is
    subtracted and they are scaled by a power of two, both in float64. Columns of numbers are standardized later, so
    that neither makes a difference.
    """
    with np.errstate(over="ignore", under="ignore"):
        plain = numbers.astype(np.float32)
    if not len(numbers) or np.array_equal(plain, numbers):
        return plain, None
    if numbers.min() == numbers.max():
        return (plain if np.isfinite(plain).all() else np.zeros_like(plain)), None
    if not _loses(numbers, plain):
        return plain, None
    # Scaled before it is centered, too: the difference of two huge numbers may be infinite.
    scaled = _scaled(numbers)
    x = _scaled(scaled - np.quantile(scaled, 0.5, method="lower")).astype(np.float32)
    return x, (len(np.unique(x)), len(np.unique(numbers))) if _merges(numbers, x) else None


def _merges(numbers: Floats, x: np.ndarray[Any, np.dtype[np.float32]]) -> bool:
    """Whether the conversion of numbers to ``x`` made too many different values equal, as a part of them shows."""
    step = -(-len(numbers) // _LOOKED_AT)
    order = np.argsort(numbers[::step])  # the conversion keeps it
    rising = (part[::step][order] for part in (numbers, x))
    before, left = (int(np.count_nonzero(part[1:] != part[:-1])) + 1 for part in rising)
    return left < (1 - _MERGED) * before


def _scaled(numbers: Floats) -> Floats:
    exponent = int(np.frexp(np.abs(numbers).max())[1])
    with np.errstate(under="ignore"):
        scaled: Floats = np.ldexp(numbers, -exponent)
    return scaled


def _loses(numbers: Floats, plain: np.ndarray[Any, np.dtype[np.float32]]) -> bool:
    if not np.isfinite(plain).all():
        return True
    with np.errstate(over="ignore", under="ignore"):
        deviation = float(numbers.std())
    if float(np.abs(numbers - plain).max()) > _ERROR * deviation:
        return True
    return _merges(numbers, plain)

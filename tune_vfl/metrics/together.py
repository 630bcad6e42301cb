"""Many sets of scores of different lengths, measured at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from tune_vfl.metrics.utility import Floats, Labels

T = TypeVar("T")
_NUMBERS_AT_ONCE = 2**18


def of_each(look: Callable[[Floats, Labels], Sequence[T]], scores: Sequence[Floats], y: Sequence[Labels]) -> list[T]:
    """Apply a function to equally long sets of scores at once; return one result per set, in order.

    Args:
        look: is given those of one length, stacked, and their labels: ``(G, n, ...)`` and ``(G, n)``; a result a set.
        scores: ``(n, ...)`` each; n may differ.
        y: ``(n,)`` each.
    """
    found: dict[int, T] = {}
    for some in _alike([len(s) for s in scores]):
        told = look(np.stack([scores[i] for i in some]), np.stack([y[i] for i in some]))
        found.update(zip(some, told, strict=True))
    return [found[i] for i in range(len(scores))]


def _alike(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of sets of one size, as many together as are few enough numbers."""
    by_size: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        by_size.setdefault(size, []).append(place)
    for size, places in by_size.items():
        step = max(1, _NUMBERS_AT_ONCE // max(1, size))
        yield from (places[k : k + step] for k in range(0, len(places), step))

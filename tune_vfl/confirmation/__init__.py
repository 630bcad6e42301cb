"""Confirmation of a search's Pareto front with fresh seeds, on rows that the search has not used.

``values`` turns records into arrays, ``contest`` chooses the settings that need more seeds, ``jobs`` and ``source`` cut
and queue their trainings, ``answer`` computes the result. All statistics are those of :mod:`tune_vfl.statistics`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_vfl.confirmation.run import Confirmed, confirm

__all__ = ["Confirmed", "confirm"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.run"), name)

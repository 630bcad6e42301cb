"""What a search chose, measured again with seeds and on rows that it has not seen.

``values`` turns what the ledger holds into blocks of numbers, ``contest`` says which settings deserve more seeds,
``jobs`` and ``pool`` run them, ``answer`` says what came of it. All statistics are those of :mod:`tune_vfl.statistics`.
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

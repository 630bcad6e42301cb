"""The trainable of a search and its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainables.base import PackTrainable


@dataclass(frozen=True)
class TrainableSpec:
    """A trainable class and its options: the real one by default, another one for tests and benchmarks."""

    trainable: type[PackTrainable]
    options: Mapping[str, Any]

    @classmethod
    def real(cls) -> TrainableSpec:
        """Return the trainable that trains and attacks."""
        from trainables.cell import CellTrainable  # imports Ray Tune, which takes a second

        return cls(CellTrainable, {})

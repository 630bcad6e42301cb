"""What a search has its workers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainables.base import PackTrainable


@dataclass(frozen=True)
class TrainableSpec:
    """What a study runs: the real trainable by default, another one for tests and benchmarks."""

    trainable: type[PackTrainable]
    options: Mapping[str, Any]

    @classmethod
    def real(cls) -> TrainableSpec:
        """Return the real thing."""
        from trainables.cell import CellTrainable  # imports Ray Tune, which takes a second

        return cls(CellTrainable, {})

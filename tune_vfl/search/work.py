"""What a search has its workers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_vfl.machine.runtime import keeping_everything

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainables.base import PackTrainable

REAL = "trainables.cell:CellTrainable"
"""What :meth:`Work.real` runs, by its name: to import it takes a second."""
IMPORTS = ("tune_vfl.evaluation.everything",)
"""What its workers import."""
SHARED = ("tune_vfl.evaluation.resolving", "tune_vfl.defenses.base", "scipy.special")
"""What of it a search needs as well, to be planned."""


@dataclass(frozen=True)
class Work:
    """What a study runs: the real trainable by default, another one for tests and benchmarks."""

    trainable: type[PackTrainable]
    options: Mapping[str, Any]

    @classmethod
    def real(cls) -> Work:
        """Return the real thing."""
        with keeping_everything():  # Ray Tune's import
            from trainables.cell import CellTrainable

        return cls(CellTrainable, {})

"""What a search has measured by its workers beside the trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.search.costs import Cost
    from tune_vfl.search.references import Measurement
    from tune_vfl.search.undefended import Undefended


@dataclass(frozen=True)
class Errands:
    """What a search has measured beside its trials.

    Attributes:
        measurements: of what attacks are compared with; nothing else is asked before they are over.
        undefended: the models that the studies are compared with.
        costs: of their defenses, when no trial is left to ask.
    """

    measurements: Sequence[Measurement]
    undefended: Sequence[Undefended]
    costs: Sequence[Cost]

"""The packs of a search in their order: reference scores, undefended models, trials, costs of defenses."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.driver.side_measurements import SideMeasurement
    from tune_vfl.driver.study_run import StudyRun
    from tune_vfl.execution.pack_searcher import WorkerPack


@dataclass(frozen=True)
class SearchPacks:
    """A source of packs, see :class:`tune_vfl.execution.pack_searcher.PackSource`.

    Attributes:
        studies: the source of trials; the study with the fewest trials comes next.
        references: the reference scores of attacks; no training but that of a cost starts before they are measured.
        undefended: the models that the studies are compared with; they start before the next trial.
        costs: of the studies' defenses, measured while no trial can start.
        deadline: the moment (``time.monotonic``) after which no trial starts; None without one.
    """

    studies: Sequence[StudyRun]
    references: Sequence[SideMeasurement] = field(default=())
    undefended: Sequence[SideMeasurement] = field(default=())
    costs: Sequence[SideMeasurement] = field(default=())
    deadline: float | None = None

    def next_pack(self, pack_id: str) -> WorkerPack | None:
        """Return the next pack; None while only the end of a running pack may bring one."""
        pack = None
        if self.deadline is None or time.monotonic() <= self.deadline:
            first = self.undefended if self._references_known else self.references
            pack = _started(first) or self._trials(pack_id)
        return pack or _started(self.costs if not self._references_known else [c for c in self.costs if c.wanted])

    @property
    def _references_known(self) -> bool:
        return all(measurement.over for measurement in self.references)

    def _trials(self, pack_id: str) -> WorkerPack | None:
        while self._references_known and (study := self._next_study()):
            if pack := study.next_pack(pack_id):
                return pack
        return None

    def _next_study(self) -> StudyRun | None:
        return min((s for s in self.studies if s.has_pending), key=lambda s: s.taken, default=None)


def _started(measurements: Sequence[SideMeasurement]) -> SideMeasurement | None:
    """Start the first measurement that is pending, and return it."""
    pending = next((m for m in measurements if m.pending), None)
    if pending is not None:
        pending.start()
    return pending

"""The jobs of a search in their order: reference scores, undefended models, trials, costs of defenses."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tune_vfl.driver.side_measurements import SideMeasurement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tune_vfl.driver.reference_scores import ReferenceScores
    from tune_vfl.driver.study_run import StudyRun
    from tune_vfl.execution.jobs import Flight, Job
    from tune_vfl.execution.losses import Cause

    Part = StudyRun | SideMeasurement


@dataclass(frozen=True)
class SearchJobs:
    """A source of jobs, see :class:`tune_vfl.execution.jobs.JobSource`.

    Attributes:
        studies: the source of trials; the study with the fewest trials comes next.
        references: the reference scores of attacks; no training but that of a cost starts before those that trials need
            are measured.
        undefended: the models that the studies are compared with; they start before the next trial, once all reference
            scores are measured.
        costs: of the studies' defenses, measured while no trial can start.
        deadline: the moment (``time.monotonic``) after which no trial starts; None without one.
    """

    studies: Sequence[StudyRun]
    references: Sequence[ReferenceScores] = field(default=())
    undefended: Sequence[SideMeasurement] = field(default=())
    costs: Sequence[SideMeasurement] = field(default=())
    deadline: float | None = None
    _running: dict[Job, Part] = field(default_factory=dict, init=False)

    def next_job(self, job_id: str, _flight: Flight, /) -> Job | None:
        """Return the next job; None while only the end of a running one may bring one."""
        for part in self._order():
            if job := part.next_job(job_id):
                self._running[job] = part
                return job
        return None

    def store(self, job: Job, answers: Sequence[Any], /) -> None:
        """Store a worker's answers."""
        self._running.pop(job).store(job, answers)

    def lose(self, job: Job, cause: Cause, /) -> None:
        """Note that the worker of a job failed."""
        self._running.pop(job).lose(job, cause)

    def beside(self) -> list[str]:
        """Return what is measured beside trials right now, in words."""
        running = (part.what for part in self._running.values() if isinstance(part, SideMeasurement))
        return [f"measuring {what}" for what in dict.fromkeys(running)]

    def _order(self) -> Iterator[Part]:
        """Yield the parts that may start a job now, the first one first."""
        known = all(measurement.enough for measurement in self.references)
        if self.deadline is None or time.monotonic() <= self.deadline:
            yield from self.references
            if all(measurement.over for measurement in self.references):
                yield from self.undefended
            while known and (pending := [study for study in self.studies if study.has_pending]):
                yield min(pending, key=lambda study: study.taken)
        yield from (cost for cost in self.costs if cost.wanted or not known)

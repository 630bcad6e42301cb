"""The jobs of a table: one seed of one evaluation each. Keeps every result at once."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tune_vfl.execution.jobs import Flight, Job, Queue
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.outcome import Outcome
    from tune_vfl.papers.owed import Owed
    from tune_vfl.papers.results import TableResults

Seed = tuple[str, int]
"""An evaluation's label and a seed of it."""


class TableJobs(Queue):
    """A source of jobs, see :class:`tune_vfl.execution.jobs.JobSource`.

    Args:
        results: what is kept; changed as seeds end.
        owed: the evaluations, cheapest first.
        write: keeps the results.
        seconds: the budget; None without one.
        say: prints a message.

    Attributes:
        results: see above.
        refused: evaluations without room in the budget, with the reason.
        failed: evaluations with a seed that could not be measured, with the reason.
    """

    def __init__(
        self,
        results: TableResults,
        owed: Sequence[Owed],
        *,
        write: Callable[[TableResults], None],
        seconds: float | None,
        say: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._owed = deque(one for one in owed if one.seeds)
        self._by_label = {one.evaluation.label: one for one in owed}
        self._kept = {label: one.kept for label, one in self._by_label.items()}
        self._write, self._seconds, self._say = write, seconds, say
        self._began = time.monotonic()
        self.results = results
        self.refused: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def next_job(self, _job_id: str, flight: Flight, /) -> Job | None:
        """Return the next seed; None at the end, or while only a running one may come again."""
        while not self.waiting and self._owed:
            self._queue(self._owed.popleft(), flight)
        if not self._fits(0.0):  # seeds took longer than was thought
            self.refused.update({_of(job)[0]: "the budget ended before its last seeds" for job in self.waiting})
            self.waiting.clear()
        return self.waiting.popleft() if self.waiting else None

    def _fits(self, cpu_seconds: float) -> bool:
        """Whether so much would end within the budget."""
        return self._seconds is None or time.monotonic() - self._began + cpu_seconds <= self._seconds

    def _queue(self, owed: Owed, flight: Flight) -> None:
        """Queue the seeds of an evaluation, or refuse it for the budget."""
        label, seconds = owed.evaluation.label, owed.seconds * len(owed.seeds)
        ahead = seconds + sum(self._by_label[_of(job)[0]].seconds for job in flight.running)
        if not self._fits(ahead / flight.most):
            self.refused[label] = f"{len(owed.seeds)} seeds do not fit the budget"
            return
        self._say(f"{label}: {len(owed.seeds)} seeds, about {owed.seconds:.0f} CPU s each")
        more = {"references": References().model_dump_json()}
        for seed in owed.seeds:
            cell = owed.cell.model_copy(update={"seeds": (seed,)})
            self.waiting.append(Job(cell, owed.kept.data, {(label, seed): {}}, more=more))

    def keep(self, _job: Job, key: Seed, answer: Outcome, /) -> None:
        """Keep a seed's result; failures of machines are not kept, so that the next run tries again."""
        label, seed = key
        before, today = self._kept[label], f"{datetime.now(UTC):%Y-%m-%d}"
        result = self._by_label[label].result_of(answer)
        self._kept[label] = before.model_copy(update={"date": today, "seeds": {**before.seeds, seed: result}})
        self.results = self.results.with_kept({label: self._kept[label]})
        self._write(self.results)

    def give_up(self, _job: Job, key: Seed, outcome: Outcome, /) -> None:
        """Report that a seed was not measured."""
        label, seed = key
        self.failed.setdefault(label, f"seed {seed}: {outcome.reason}")
        self._say(f"{label}: seed {seed} could not be measured: {outcome.reason}")


def _of(job: Job) -> Seed:
    """Return the evaluation's label and the seed of a job."""
    key: Seed
    (key,) = job.settings
    return key

"""Jobs, and the queue of those that wait: all that workers measure for searches, confirmations, published tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from tune_vfl.execution.losses import Cause, Loss
from tune_vfl.outcome import MACHINE_FAILURES, Outcome, read_outcome

if TYPE_CHECKING:
    from tune_vfl.spec.cell import Cell

Asks = Literal["outcomes", "references", "floors", "cost", "attacker"]


@dataclass(frozen=True, eq=False)
class Job:
    """Work for one call of a worker: settings of one cell.

    Attributes:
        cell: the evaluation settings, with the seeds.
        data: the fingerprint of its rows.
        settings: the defense's parameters of each setting, by the key that its source knows the setting by.
        asks: what is measured of them, see :mod:`trainables.base`.
        minutes: the time limit of one setting; None without a limit.
        more: what the worker needs beside, as plain data.
    """

    cell: Cell
    data: str
    settings: Mapping[Any, Mapping[str, Any]]
    asks: Asks = "outcomes"
    minutes: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds_allowed(self) -> float | None:
        """The time limit in seconds; None without a limit.

        Several settings have twice their time: they may be tried together, then each alone.
        """
        twice = 2 if len(self.settings) > 1 else 1
        return None if self.minutes is None else self.minutes * 60 * len(self.settings) * twice

    def message(self) -> dict[str, Any]:
        """Return the configuration of the trainable, without its options; see :mod:`trainables.base`."""
        asks = {} if self.asks == "outcomes" else {"asks": self.asks}
        params = [dict(p) for p in self.settings.values()]
        return {**asks, "cell": self.cell.model_dump_json(), "params": params, "data": self.data, **self.more}

    def loss(self, cause: Cause) -> Loss:
        """Return what the failure of its worker is to its settings."""
        return Loss(cause, len(self.settings), self.cell.trial_minutes)

    def parts(self, keys: Sequence[Hashable], most: int) -> list[Job]:
        """Return jobs of these of its settings, at most ``most`` in each."""
        cuts = [keys[k : k + most] for k in range(0, len(keys), most)]
        return [replace(self, settings={key: self.settings[key] for key in cut}) for cut in cuts]


class Flight(NamedTuple):
    """The state of the workers at the moment at which a job is asked for.

    Attributes:
        running: the jobs.
        most: the number of jobs that may run at once.
    """

    running: Sequence[Job] = ()
    most: int = 1


class JobSource(Protocol):
    """Decides which job comes next, and stores what becomes of each."""

    def next_job(self, job_id: str, flight: Flight, /) -> Job | None:
        """Return the next job; None while only the end of a running one may bring more, and at the end."""

    def store(self, job: Job, answers: Sequence[Any], /) -> None:
        """Store a worker's answers, one for each setting."""

    def lose(self, job: Job, cause: Cause, /) -> None:
        """Note that the worker of a job failed: its settings are tried again, or are given up."""


class Queue(ABC):
    """Jobs that wait, and the losses of this run.

    A source that extends it adds jobs to ``waiting``, where those to be tried again are put too. A setting whose worker
    was lost too often is given up; so is one whose outcome says nothing of it, such as ``oom``.

    Attributes:
        waiting: the jobs in their order.
    """

    def __init__(self) -> None:
        self.waiting: deque[Job] = deque()
        self._losses: Counter[Hashable] = Counter()

    def lose(self, job: Job, cause: Cause, /) -> None:
        """Queue the settings of a job again whose worker failed, and give up those that were lost too often."""
        loss = job.loss(cause)
        again = []
        for key in job.settings:
            outcome = loss.outcome(self._count(job, key, loss))
            if outcome.outcome == "preempted":
                again.append(key)
            else:
                self.give_up(job, key, outcome)
        self.waiting.extend(job.parts(again, loss.together))

    def _count(self, job: Job, key: Hashable, loss: Loss) -> int:
        """Return how often a setting was lost in this way."""
        # A machine may take several jobs of one setting with it at once: each of them counts by itself.
        counted = (job.asks, key, loss.counts_as, job.cell.seeds if loss.counts_as == "node" else ())
        self._losses[counted] += 1
        return self._losses[counted]

    def store(self, job: Job, answers: Sequence[Any], /) -> None:
        """Keep what a worker sent of each setting, or give the setting up."""
        for key, sent in zip(job.settings, answers, strict=True):
            answer = read_outcome(sent) if job.asks == "outcomes" else sent
            if isinstance(answer, Outcome) and answer.outcome in MACHINE_FAILURES:
                self.give_up(job, key, answer)
            else:
                self.keep(job, key, answer)

    @abstractmethod
    def keep(self, job: Job, key: Any, answer: Any, /) -> None:
        """Store what was measured of a setting: an :class:`Outcome`, or what the worker sent of another measurement."""

    @abstractmethod
    def give_up(self, job: Job, key: Any, outcome: Outcome, /) -> None:
        """Store why a setting of a job was not measured."""

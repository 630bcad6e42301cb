"""Measurements beside a search's trials, each a job of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from tune_vfl.execution.jobs import Queue

if TYPE_CHECKING:
    from tune_vfl.execution.jobs import Job
    from tune_vfl.outcome import Outcome


class SideMeasurement(Queue):
    """A measurement that runs once, and again after its worker failed.

    Attributes:
        what: is measured, in words.
        over: it has an answer, or has failed.
    """

    what: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.over = self._begun = False

    @property
    def wanted(self) -> bool:
        """Whether its answer would be used."""
        return True

    @property
    def pending(self) -> bool:
        """Whether it is neither over nor running."""
        return not self.over and (bool(self.waiting) or not self._begun)

    def next_job(self, _job_id: str = "", /) -> Job | None:
        """Start it; None where it is not pending."""
        if not self.pending:
            return None
        if not self._begun:
            self._begun = True
            self.waiting.append(self.job())
        return self.waiting.popleft()

    def keep(self, _job: Job, _key: Any, answer: Any, /) -> None:
        """Store its answer."""
        self.over = True
        self.learn(answer)

    def give_up(self, _job: Job, _key: Any, outcome: Outcome, /) -> None:
        """Store why there is no answer."""
        self.over = True
        self.fail(outcome)

    @abstractmethod
    def job(self) -> Job:
        """Return what a worker has to do."""

    @abstractmethod
    def learn(self, answer: Any, /) -> None:
        """Store the answer."""

    @abstractmethod
    def fail(self, outcome: Outcome, /) -> None:
        """Store that there is no answer."""

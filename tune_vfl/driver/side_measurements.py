"""Measurements beside a search's trials, each a pack of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from tune_vfl.execution.losses import Cause, Loss, Losses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.outcome import Outcome


class SideMeasurement(ABC):
    """A measurement that runs once, and again after its worker failed.

    Attributes:
        trials: the number of trials in its pack.
        trial_minutes: the time limit of a trial; None without a limit.
        over: it has an answer, or has failed.
    """

    trials: ClassVar[int] = 0
    trial_minutes: float | None = None

    def __init__(self) -> None:
        self.over = False
        self._running, self._losses = False, Losses()

    @property
    def wanted(self) -> bool:
        """Whether its answer would be used."""
        return True

    @property
    def pending(self) -> bool:
        """Whether it is neither over nor running."""
        return not self.over and not self._running

    def start(self) -> None:
        """Note that it runs."""
        self._running = True

    def end(self, sent: Sequence[Any], /) -> None:
        """Store its answer."""
        (answer,) = sent
        self.over = True
        self._keep(answer)

    def lose(self, cause: Cause, /) -> None:
        """Try it again after a failed worker, or store that it has failed."""
        self._running = False
        outcome = self._losses.outcome("", Loss(cause, minutes=self.trial_minutes))
        if outcome.outcome != "preempted":
            self.over = True
            self._fail(outcome)

    @property
    @abstractmethod
    def seconds_allowed(self) -> float | None:
        """The time limit in seconds; None without a limit."""

    @abstractmethod
    def message(self) -> dict[str, Any]:
        """Return the worker's configuration, see :mod:`trainables.base`."""

    @abstractmethod
    def _keep(self, answer: Any, /) -> None:
        """Store a worker's answer."""

    @abstractmethod
    def _fail(self, outcome: Outcome, /) -> None:
        """Store why there is no answer."""

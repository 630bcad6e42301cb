"""Measurements beside a search's trials, each a pack of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.execution.worker_failures import Cause


class SideMeasurement(ABC):
    """A measurement that runs once, and again after its worker failed.

    Attributes:
        trials: the number of trials in its pack.
        tries: the number of dead workers after which it has failed.
        over: it has an answer, or has failed.
    """

    trials: ClassVar[int] = 0
    tries: ClassVar[int] = 3

    def __init__(self) -> None:
        self.over = False
        self._running, self._deaths = False, 0

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
        """Retry it after a failed worker, up to ``tries`` times; a lost machine does not count, a timeout is final."""
        self._running = False
        self._deaths += cause != "node"
        if cause == "timeout" or self._deaths >= self.tries:
            self.over = True
            self._fail(cause)

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
    def _fail(self, cause: Cause, /) -> None:
        """Store that there is no answer."""

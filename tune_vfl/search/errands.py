"""What a search has its workers measure beside the trials, each a pack of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.search.worker_failures import Cause


class Errand(ABC):
    """A measurement that is handed out once, and again when its worker was lost.

    Attributes:
        trials: how many trials its pack holds.
        tries: so many of its workers may die until it has failed.
        over: it has come to an end, one way or the other.
    """

    trials: ClassVar[int] = 0
    tries: ClassVar[int] = 3

    def __init__(self) -> None:
        self.over = False
        self._running, self._deaths = False, 0

    @property
    def wanted(self) -> bool:
        """Whether anybody would miss it."""
        return True

    @property
    def owed(self) -> bool:
        """Whether it is to be made, and is not being made now."""
        return not self.over and not self._running

    def ask(self) -> dict[str, Any]:
        """Hand it out.

        Returns:
            Its pack, in so far as it is not what all packs are, see :mod:`trainables.base`.
        """
        self._running = True
        return self._pack()

    def end(self, sent: Sequence[Any], /) -> None:
        """Keep what came back."""
        (answer,) = sent
        self.over = True
        self._keep(answer)

    def lose(self, cause: Cause, /) -> None:
        """Hear that its worker has failed. A machine that went away says nothing of it, and a timeout says all."""
        self._running = False
        self._deaths += cause != "node"
        if cause == "timeout" or self._deaths >= self.tries:
            self.over = True
            self._fail(cause)

    @property
    @abstractmethod
    def seconds_allowed(self) -> float | None:
        """How long it may take; None without a limit."""

    @abstractmethod
    def _pack(self) -> dict[str, Any]:
        """Return what is asked of a worker."""

    @abstractmethod
    def _keep(self, answer: Any, /) -> None:
        """Keep a worker's answer."""

    @abstractmethod
    def _fail(self, why: Cause, /) -> None:
        """Tell that there is no answer."""


@dataclass(frozen=True)
class Errands:
    """What a search has measured, in the order in which it is asked.

    Attributes:
        references: what attacks are compared with; no other training is asked before they are over.
        undefended: the models that the studies are compared with.
        costs: of their defenses, whenever no trial can be asked.
    """

    references: Sequence[Errand]
    undefended: Sequence[Errand]
    costs: Sequence[Errand]

    @property
    def before_trials(self) -> Errand | None:
        """What is asked before the next trial; None where nothing is or where others must end first."""
        return _first_owed(self.undefended if self._compared else self.references)

    @property
    def beside_trials(self) -> Errand | None:
        """What is asked while no trial can be: at first, any cost, since a worker would wait otherwise."""
        early = not self._compared
        return next((cost for cost in self.costs if cost.owed and (early or cost.wanted)), None)

    @property
    def _compared(self) -> bool:
        """Whether it is known what attacks are compared with."""
        return all(errand.over for errand in self.references)

    @property
    def block_trials(self) -> bool:
        """Whether trials must wait."""
        return not self._compared


def _first_owed(errands: Sequence[Errand]) -> Errand | None:
    return next((errand for errand in errands if errand.owed), None)

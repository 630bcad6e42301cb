"""What the defenses of a search cost in training: measured once a study, by the workers that ran its trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.search.part import DIED, HUNG, NO_MEMORY
from tune_vfl.search.undefended import undefended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.search.losses import Cause
    from tune_vfl.search.work import Work
    from tune_vfl.spec.cell import Cell


def owed_costs(ledgers: Sequence[Ledger], work: Work, say: Callable[[str], None]) -> list[Cost]:
    """Return the costs that are to be measured; none where the trainable trains nothing.

    Args:
        ledgers: of the studies of a search.
        work: what is run.
        say: is told what a person should know.
    """
    from trainables.base import TrainingTrainable

    if not issubclass(work.trainable, TrainingTrainable):
        return []
    return [Cost(ledger, say) for ledger in ledgers if ledger.cost is None]


class Cost:
    """What the defense of one study costs, a pack of its own: a ratio of CPU times, which neighbours hardly move.

    It is measured when no trial is left to ask and the study has a result; before all trials where a constraint on the
    cost may decide to which studies they go. What cannot be measured is said and left: the next run measures it.

    Args:
        ledger: of the study.
        say: is told what a person should know.

    Attributes:
        steers: where trials go depends on it.
        taken: it was handed out.
        over: it has come to an end, whether it is known or not.
    """

    def __init__(self, ledger: Ledger, say: Callable[[str], None]) -> None:
        self._ledger, self._say = ledger, say
        self.steers = steers(ledger)
        self.taken = self.over = False

    @property
    def owed(self) -> bool:
        """Whether it can be measured now."""
        return not self.taken and (self.steers or bool(self._ledger.record().ok))

    def announce(self) -> None:
        """Say that costs are measured from now on."""
        self._say("measuring what the defenses cost in training; Ctrl-C leaves the rest to the next run")

    def take(self) -> tuple[Cell, dict[str, Any], Cell]:
        """Hand it out: a cell, the setting that stands for its defense, and the cell without the defense."""
        self.taken = True
        cell, params = self._ledger.cell.with_params(self._ledger.space.typical)
        return cell, params, undefended(cell)

    def seconds_allowed(self, _: Sequence[int], /) -> float | None:
        """Return how long it may take, which is two trainings; None without a limit."""
        minutes = self._ledger.cell.trial_minutes
        return None if minutes is None else 2 * minutes * 60

    def end(self, _: Sequence[int], sent: Sequence[Any], /) -> None:
        """Keep what came back."""
        (answer,) = sent
        self.over = True
        if "cost" in answer:
            self._ledger.set_cost(answer["cost"])
        else:
            self._unknown(answer["reason"])

    def lose(self, _: Sequence[int], cause: Cause, /) -> None:
        """Hear that it was lost with its worker; a machine that went away says nothing of it."""
        if cause == "node":
            self.taken = False
        else:
            self._unknown(NO_MEMORY if cause == "memory" else DIED)

    def give_up(self, _: Sequence[int], /) -> None:
        """Hear that it does not come back."""
        self._unknown(HUNG)

    def _unknown(self, why: str) -> None:
        self.over = True
        self._say(f"the cost of {self._ledger.cell.defense} was not measured: {why}")


def steers(ledger: Ledger) -> bool:
    """Whether trials go by what a study costs."""
    return ledger.spec.allocation == "race" and "cost" in ledger.spec.constraints

"""The training cost of each study's defense, measured once by the workers that ran its trials."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tune_vfl.driver.side_measurements import SideMeasurement
from tune_vfl.driver.undefended import undefended
from tune_vfl.execution.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.execution.trainable_spec import TrainableSpec
    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.outcome import Outcome


def owed_costs(ledgers: Sequence[Ledger], work: TrainableSpec, say: Callable[[str], None]) -> list[Cost]:
    """Return the cost measurements of studies without a cost; none for a trainable that trains nothing.

    Args:
        ledgers: of the studies of a search.
        work: the trainable.
        say: prints a message.
    """
    from trainables.base import TrainingTrainable

    @cache
    def announce() -> None:
        say("measuring what the defenses cost in training; Ctrl-C leaves the rest to the next run")

    if not issubclass(work.trainable, TrainingTrainable):
        return []
    return [Cost(ledger, announce, say) for ledger in ledgers if ledger.cost is None]


class Cost(SideMeasurement):
    """The training cost of one study's defense: a ratio of CPU times, which other processes hardly change.

    It is measured while no trial can start: before the reference scores are known, and at the end if the study has a
    result. A cost that cannot be measured is reported, and the next run measures it.

    Args:
        ledger: the study's.
        announce: called before the measurement.
        say: prints a message.
    """

    what = "a defense's cost"

    def __init__(self, ledger: Ledger, announce: Callable[[], None], say: Callable[[str], None]) -> None:
        super().__init__()
        self._ledger, self._announce, self._say = ledger, announce, say
        self._wanted = False

    @property
    def wanted(self) -> bool:
        """Whether the study has a result; cached once it has."""
        self._wanted = self._wanted or bool(self._ledger.record().ok)
        return self._wanted

    def job(self) -> Job:
        """Return its two trainings, which may take twice the time of a trial."""
        if self.wanted:
            self._announce()
        cell, params = self._ledger.cell.with_params(self._ledger.space.typical)
        minutes = None if cell.trial_minutes is None else 2 * cell.trial_minutes
        more = {"undefended": undefended(cell).model_dump_json()}
        return Job(cell, self._ledger.study.data, {"": params}, asks="cost", minutes=minutes, more=more)

    def learn(self, answer: Any, /) -> None:
        """Store the cost, or say why there is none."""
        if "cost" in answer:
            self._ledger.set_cost(answer["cost"])
        else:
            self._say(f"the cost of {self._ledger.cell.defense} was not measured: {answer['reason']}")

    def fail(self, outcome: Outcome, /) -> None:
        """Say why there is none."""
        self.learn({"reason": outcome.reason})

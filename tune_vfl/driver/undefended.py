"""The undefended model: measured once for all studies of a search that differ by their defense alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.driver.side_measurements import SideMeasurement
from tune_vfl.driver.study_run import SearchObserver
from tune_vfl.evaluation.references import without_defense
from tune_vfl.execution.jobs import Job
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.outcome import MACHINE_FAILURES, Outcome
from tune_vfl.spec.cell import Cell, References

if TYPE_CHECKING:
    from collections.abc import Sequence


def undefended(cell: Cell) -> Cell:
    """Return the cell without its defense, with more seeds and all attacks."""
    return without_defense(cell).model_copy(update={"seeds": cell.seeds_of_undefended, "spare": ()})


class Undefended(SideMeasurement):
    """The undefended model that several studies share.

    Args:
        ledgers: of these studies. A measurement in one of them is copied to the others.

    Attributes:
        cell: the evaluation settings.
        observers: called after the measurement.
    """

    what = "the model without defense"

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        super().__init__()
        self._ledgers = ledgers
        self.observers: Sequence[SearchObserver] = ()
        self.cell = undefended(ledgers[0].cell)
        known = next((b for one in ledgers if _stands(b := one.baseline)), None)
        if known is not None:
            self.over = True
            self._give(known)

    def job(self) -> Job:
        """Return its training."""
        first = self._ledgers[0]
        more = {"references": (first.references or References()).model_dump_json()}
        return Job(self.cell, first.study.data, {"": {}}, minutes=self.cell.trial_minutes, more=more)

    def learn(self, answer: Outcome, /) -> None:
        """Store the outcome with each study."""
        self._give(answer)
        records = [ledger.record() for ledger in self._ledgers]
        for observer in self.observers:
            observer.on_baseline(records, answer)

    def fail(self, outcome: Outcome, /) -> None:
        """Store the failure with each study; the next run measures the model again."""
        self.learn(outcome)

    def _give(self, outcome: Outcome) -> None:
        for ledger in self._ledgers:
            if not _stands(ledger.baseline):
                ledger.set_baseline(outcome)


def _stands(baseline: Outcome | None) -> bool:
    return baseline is not None and baseline.outcome not in MACHINE_FAILURES


def shared(ledgers: Sequence[Ledger]) -> list[Undefended]:
    """Return the undefended models of studies, each once."""
    alike: dict[str, list[Ledger]] = {}
    for ledger in ledgers:
        alike.setdefault(undefended(ledger.cell).model_dump_json() + ledger.study.data, []).append(ledger)
    return [Undefended(group) for group in alike.values()]

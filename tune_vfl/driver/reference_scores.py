"""Reference scores of attacks: measured before the first trial, once for all studies with the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.driver.side_measurements import SideMeasurement
from tune_vfl.errors import UnreachableError
from tune_vfl.evaluation.references import key_of_references
from tune_vfl.execution.jobs import Job
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.outcome import Outcome


class ReferenceScores(SideMeasurement):
    """The reference scores of the attacks of some studies, without a time limit.

    Args:
        ledgers: of these studies, with attacks alike in what they reach without messages, see :func:`alike`. A
            measurement in one of them is copied to the others.
        name: the study's or campaign's, for messages.
        then: called when they are measured.

    Raises:
        UnreachableError: from :meth:`lose`, when its workers failed again and again.
    """

    def __init__(self, ledgers: Sequence[Ledger], name: str, then: Callable[[], None]) -> None:
        super().__init__()
        self._ledgers, self._name, self._then = ledgers, name, then
        for ledger in ledgers:
            if ledger.references is not None and ledger.reference_point is not None:
                self.over = True
                self._give(ledger.references, ledger.reference_point)
                break

    def job(self) -> Job:
        """Return their measurement."""
        first = self._ledgers[0]
        return Job(first.cell, first.study.data, {"": {}}, asks="references")

    def learn(self, answer: Any, /) -> None:
        """Store them with each study."""
        self._give(References.model_validate(answer["references"]), (answer["guess"], 1.0))
        self._then()

    def fail(self, outcome: Outcome, /) -> None:
        """End the search: no trial can be scored without them."""
        raise UnreachableError(
            f"{self._name!r}: what attacks are compared with could not be measured: {outcome.reason}; close what else "
            "needs memory there, give each worker more room, or run 'tune-vfl doctor', and start the same command again"
        )

    def _give(self, references: References, reference_point: tuple[float, float]) -> None:
        for ledger in self._ledgers:
            if ledger.references is None:
                ledger.set_references_and_reference_point(references, reference_point)


def alike(ledgers: Sequence[Ledger]) -> list[list[Ledger]]:
    """Return studies by what their attacks reach without messages, see :func:`key_of_references`."""
    groups: dict[tuple[object, ...], list[Ledger]] = {}
    for ledger in ledgers:
        key = key_of_references(ledger.cell), ledger.cell.seeds_of_undefended, ledger.study.data
        groups.setdefault(key, []).append(ledger)
    return list(groups.values())

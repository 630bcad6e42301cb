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

    Those of the studies' own seeds come first, since trials need no others; then those of the further seeds with which
    the undefended model is measured.

    Args:
        ledgers: of these studies, with attacks alike in what they reach without messages, see :func:`alike`. A
            measurement in one of them is copied to the others.
        name: the study's or campaign's, for messages.
        then: called when some are measured.

    Raises:
        UnreachableError: from :meth:`lose`, when its workers failed again and again.
    """

    what = "what attacks find without messages"

    def __init__(self, ledgers: Sequence[Ledger], name: str, then: Callable[[], None]) -> None:
        super().__init__()
        self._ledgers, self._name, self._then = ledgers, name, then
        self._known: References | None = None
        held = [(r, p) for ledger in ledgers if (r := ledger.references) and (p := ledger.reference_point)]
        if held:
            self._give(*max(held, key=lambda one: one[0].seeds))
        self.over = not self._owed

    @property
    def enough(self) -> bool:
        """Whether trials can be scored."""
        return self._known is not None

    @property
    def _owed(self) -> tuple[int, ...]:
        """The seeds to measure next."""
        cell = self._ledgers[0].cell
        if self._known is None:
            return cell.seeds
        return cell.seeds_of_undefended[self._known.seeds :] if self._known.seeds else ()

    def job(self) -> Job:
        """Return their measurement with the seeds that come next."""
        first = self._ledgers[0]
        cell = first.cell.model_copy(update={"seeds": self._owed})
        return Job(cell, first.study.data, {"": {}}, asks="references")

    def learn(self, answer: Any, /) -> None:
        """Store them with each study."""
        found, known = References.model_validate(answer["references"]), self._known
        point = self._ledgers[0].reference_point if known else None
        self._give(References.joined([known, found]) if known else found, point or (answer["guess"], 1.0))
        self._then()
        if self._owed:
            self.over = self._begun = False

    def fail(self, outcome: Outcome, /) -> None:
        """End the search: no trial can be scored without them."""
        raise UnreachableError(
            f"{self._name!r}: what attacks are compared with could not be measured: {outcome.reason}; close what else "
            "needs memory there, give each worker more room, or run 'tune-vfl doctor', and start the same command again"
        )

    def _give(self, references: References, reference_point: tuple[float, float]) -> None:
        self._known = references
        for ledger in self._ledgers:
            if ledger.references is None or ledger.references.seeds < references.seeds:
                ledger.set_references_and_reference_point(references, reference_point)


def alike(ledgers: Sequence[Ledger]) -> list[list[Ledger]]:
    """Return studies by what their attacks reach without messages, see :func:`key_of_references`."""
    groups: dict[tuple[object, ...], list[Ledger]] = {}
    for ledger in ledgers:
        key = key_of_references(ledger.cell), ledger.cell.seeds_of_undefended, ledger.study.data
        groups.setdefault(key, []).append(ledger)
    return list(groups.values())

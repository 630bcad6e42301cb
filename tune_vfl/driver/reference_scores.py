"""Reference scores of attacks: measured before the first trial, once for all studies with the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.driver.side_measurements import SideMeasurement
from tune_vfl.errors import UnreachableError
from tune_vfl.execution.jobs import Job
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Callable

    from tune_vfl.driver.undefended import Undefended
    from tune_vfl.outcome import Outcome


class ReferenceScores(SideMeasurement):
    """The reference scores of the attacks of some studies, without a time limit.

    Args:
        model: the undefended model of these studies.
        name: the study's or campaign's, for messages.
        then: called when they are measured.

    Raises:
        UnreachableError: from :meth:`lose`, when its workers failed again and again.
    """

    def __init__(self, model: Undefended, name: str, then: Callable[[], None]) -> None:
        super().__init__()
        self._model, self._name, self._then = model, name, then
        self.over = model.references is not None

    def job(self) -> Job:
        """Return their measurement."""
        first = self._model.first
        return Job(first.cell, first.study.data, {"": {}}, asks="references")

    def learn(self, answer: Any, /) -> None:
        """Store them with each study."""
        self._model.set_references(References.model_validate(answer["references"]), (answer["guess"], 1.0))
        self._then()

    def fail(self, outcome: Outcome, /) -> None:
        """End the search: no trial can be scored without them."""
        raise UnreachableError(
            f"{self._name!r}: what attacks are compared with could not be measured: {outcome.reason}; close what else "
            "needs memory there, give each worker more room, or run 'tune-vfl doctor', and start the same command again"
        )

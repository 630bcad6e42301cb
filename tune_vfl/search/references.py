"""What attacks are compared with: measured by a worker before anything else, once for all studies that share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.errors import UnreachableError
from tune_vfl.search.errands import Errand
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Callable

    from tune_vfl.search.undefended import Undefended
    from tune_vfl.search.worker_failures import Cause


class ReferencesErrand(Errand):
    """What the attacks of some studies are compared with. There is no limit to how long it may take.

    Args:
        model: the undefended model of these studies.
        name: what is run, for messages.
        then: is called when it was made.

    Raises:
        Exception: from :meth:`end`, that the worker met, such as data that are not on its machine.
        UnreachableError: from :meth:`lose`, when its workers died again and again.
    """

    seconds_allowed: float | None = None

    def __init__(self, model: Undefended, name: str, then: Callable[[], None]) -> None:
        super().__init__()
        self._model, self._name, self._then = model, name, then
        self.over = model.references is not None

    def _pack(self) -> dict[str, Any]:
        return {"asks": "references", "cell": self._model.first.cell.model_dump_json(), "params": []}

    def _keep(self, answer: Any, /) -> None:
        if isinstance(answer, Exception):
            raise answer
        self._model.set_references(References.model_validate(answer["references"]), (answer["guess"], 1.0))
        self._then()

    def _fail(self, why: Cause, /) -> None:
        if why == "memory":
            raise UnreachableError(
                f"{self._name!r}: the machine ran out of memory while a worker measured what attacks are compared "
                f"with, {self.tries} times; close what else needs memory there, or give it a larger one, and start "
                "the same command again"
            )
        raise UnreachableError(
            f"{self._name!r}: the worker that measures what attacks are compared with died {self.tries} times; give "
            "it more room, or run 'tune-vfl doctor', and start the same command again"
        )

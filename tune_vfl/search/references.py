"""What attacks are compared with: measured by a worker before anything else, once for all studies that share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.errors import UnreachableError
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.search.losses import Cause
    from tune_vfl.search.undefended import Undefended
    from tune_vfl.spec.cell import Cell

_TRIES = 3


class Measurement:
    """The measurement of what the attacks of some studies are compared with, a pack of its own.

    Args:
        model: the undefended model of these studies.
        name: what is run, for messages.
        then: is called when it was made.
    """

    def __init__(self, model: Undefended, name: str, then: Callable[[], None]) -> None:
        self._model, self._name, self._then = model, name, then
        self._taken, self._deaths = False, 0

    @property
    def owed(self) -> bool:
        """Whether it is to be made, and is not being made now."""
        return not self._taken and not self.over

    @property
    def over(self) -> bool:
        """Whether it was made."""
        return self._model.references is not None

    def take(self) -> Cell:
        """Hand it out: the cell of one of the studies."""
        self._taken = True
        return self._model.first.cell

    def seconds_allowed(self, _: Sequence[int], /) -> float | None:
        """Return how long it may take: there is no limit."""
        return None

    def end(self, _: Sequence[int], sent: Sequence[Any], /) -> None:
        """Keep what came back.

        Raises:
            Exception: that the worker met, such as data that are not on its machine.
        """
        (answer,) = sent
        if isinstance(answer, Exception):
            raise answer
        self._model.set_references(References.model_validate(answer["references"]), (answer["guess"], 1.0))
        self._then()

    def lose(self, _: Sequence[int], cause: Cause, /) -> None:
        """Hear that it was lost with its worker: it is tried again some times.

        Raises:
            UnreachableError: when its workers died again and again.
        """
        self._deaths += cause != "node"
        if self._deaths == _TRIES:
            raise UnreachableError(self._advice(cause))
        self._taken = False

    def give_up(self, numbers: Sequence[int], /) -> None:
        """Hear that it does not come back."""
        self.lose(numbers, "crash")

    def _advice(self, cause: Cause) -> str:
        if cause == "memory":
            return (
                f"{self._name!r}: the machine ran out of memory while a worker measured what attacks are compared "
                f"with, {_TRIES} times; close what else needs memory there, or give it a larger one, and start the "
                "same command again"
            )
        return (
            f"{self._name!r}: the worker that measures what attacks are compared with died {_TRIES} times; give it "
            "more room, or run 'tune-vfl doctor', and start the same command again"
        )

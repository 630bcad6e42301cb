"""Ray Tune's searcher over the ledger: hands out packs, and tells the ledger what came back or who died.

It lives in the driver only. Ray pickles it once, to restore an experiment with it, which never happens here: a search
that is resumed makes a new searcher for the trials that the ledger still lacks.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4
from weakref import WeakValueDictionary

from ray.tune.search.searcher import Searcher

from tune_vfl.ledger.ledger import MAX_WORKER_LOSSES
from tune_vfl.search.part import TrialPack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tune_vfl.search.errands import Errand, Errands
    from tune_vfl.search.losses import Cause
    from tune_vfl.search.part import Part

# After so many lost packs in a row, without one that answered, the search gives up: workers cannot run here.
_MAX_LOSSES_IN_A_ROW = 4 * MAX_WORKER_LOSSES


@dataclass(frozen=True)
class RunSettings:
    """How one run of a search is carried out.

    Attributes:
        workers: packs at once, at the start.
        room: asked again and again how many packs may run at once.
        deadline: the moment (``time.monotonic``) after which nothing new is asked.
        options: the trainable's.
    """

    workers: int
    room: Callable[[], int]
    deadline: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Flight(Protocol):
    """What a pack that runs is of: some trials of a study, or an errand."""

    @property
    def trials(self) -> int:
        """How many trials it holds."""

    @property
    def gated(self) -> bool:
        """Whether its worker may wait for others to start with it, see :mod:`trainables.gate`."""

    @property
    def seconds_allowed(self) -> float | None:
        """How long it may take; None without a limit."""

    def end(self, sent: Sequence[Any], /) -> None:
        """Tell what came back."""

    def lose(self, cause: Cause, /) -> None:
        """Tell that it was lost with its worker."""

    def give_up(self) -> None:
        """Tell that it does not come back."""


class LedgerSearcher(Searcher):  # type: ignore[misc]
    """Suggests packs until the budget of trials of every study is used up.

    Args:
        parts: the studies; the one that has had the fewest trials asks next.
        errands: what is measured beside the trials.
        settings: how the run is carried out.
    """

    def __init__(self, parts: Sequence[Part], errands: Errands, settings: RunSettings) -> None:
        super().__init__(metric=None, mode=None)
        self._parts, self._errands, self._settings = parts, errands, settings
        self._flying: dict[str, Flight] = {}
        self._losses_in_a_row = 0
        self._causes: dict[str, Cause] = {}
        self._session = uuid4().hex
        # Of these so many start together; where trials wait for a measurement, nothing may wait for them.
        packs = sum(part.packs for part in parts) + sum(model.owed for model in errands.undefended)
        self._together = min(settings.workers, packs)
        self.stopped = False
        self.failure: Exception | None = None
        _SEARCHERS[self._session] = self

    def __reduce__(self) -> tuple[Callable[[str], LedgerSearcher], tuple[str]]:
        """Travel as a name: database and lease stay in this process."""
        return (_searcher_of, (self._session,))

    def stop(self) -> None:
        """Hand out no more packs; the outcomes of those that are running are still written to the ledger."""
        self.stopped = True

    @property
    def hopeless(self) -> bool:
        """Whether workers die one after the other."""
        return self._losses_in_a_row >= _MAX_LOSSES_IN_A_ROW

    @property
    def _late(self) -> bool:
        """Whether no more trials are to be asked; what they cost is still measured."""
        return self._settings.deadline is not None and time.monotonic() > self._settings.deadline

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever it is: Tune makes a text of it, and goes on to its cleaning up
            self.failure = self.failure or error
            raise

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next pack, None while only running packs may bring more work, FINISHED at the end."""
        with self._noted():
            return self._suggest(trial_id)

    def _suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self.failure is not None:  # met as a pack was told, which Tune takes for the pack's own
            raise self.failure
        if self.stopped or self.hopeless:
            return str(Searcher.FINISHED)
        if len(self._flying) >= self._settings.room():
            return None
        errands, pack = self._errands, None
        if not self._late:
            pack = self._errand(trial_id, errands.before_trials) or self._trials(trial_id)
        pack = pack or self._errand(trial_id, errands.beside_trials)
        # A running pack may still be lost and asked again: the search is finished only when none is running.
        return pack or (None if self._flying else str(Searcher.FINISHED))

    def _errand(self, trial_id: str, errand: Errand | None) -> dict[str, Any] | None:
        return None if errand is None else self._sent(trial_id, errand, errand.ask())

    def _trials(self, trial_id: str) -> dict[str, Any] | None:
        while not self._errands.block_trials and (part := self._next()):
            numbers, params = part.ask(trial_id)
            if numbers:
                return self._sent(trial_id, TrialPack(part, numbers), part.pack(params))
        return None

    def _next(self) -> Part | None:
        """Return the study that has had the fewest trials of those that owe some; None while nobody can ask."""
        return min((p for p in self._parts if p.owes), key=lambda p: p.taken, default=None)

    def _sent(self, trial_id: str, flight: Flight, pack: dict[str, Any]) -> dict[str, Any]:
        """Note that a pack is handed out, and return it as its worker gets it."""
        self._flying[trial_id] = flight
        gate = {"key": f"gate/{self._session}", "count": self._together if flight.gated else 0}
        return {**pack, "gate": gate, "options": dict(self._settings.options)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tell a pack's outcomes."""
        self.on_trial_complete(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell a pack's outcomes, or that it was lost. A second call for the same pack changes nothing."""
        flight = self._flying.pop(trial_id, None)
        if flight is None or self.failure is not None:
            return
        sent = (result or {}).get("outcomes")
        with self._noted():
            if error or sent is None:
                self._lost(flight, self._causes.pop(trial_id, "crash"))
            else:
                self._losses_in_a_row = 0
                flight.end(sent)

    def lost_because(self, trial_id: str, cause: Cause) -> None:
        """Hear why a pack is about to be told as lost."""
        self._causes[trial_id] = cause

    def seconds_allowed(self, trial_id: str) -> float | None:
        """Return how long a pack that runs may take by its trials' limits; None without a limit."""
        flight = self._flying.get(trial_id)
        return None if flight is None else flight.seconds_allowed

    def give_up(self, trial_id: str) -> int:
        """Tell the ledger of a pack that does not come back.

        Returns:
            How many trials it had; an errand counts as one.
        """
        flight = self._flying.pop(trial_id, None)
        if flight is None:
            return 0
        with self._noted():
            flight.give_up()
        return max(1, flight.trials)

    def _lost(self, flight: Flight, cause: Cause) -> None:
        """Tell of a lost pack. Only a node that went away says nothing of what ran on it, and is not counted."""
        self._losses_in_a_row += cause != "node"
        flight.lose(cause)

    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: the ledger is the only record."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


_SEARCHERS: WeakValueDictionary[str, LedgerSearcher] = WeakValueDictionary()


def _searcher_of(session: str) -> LedgerSearcher:
    return _SEARCHERS[session]

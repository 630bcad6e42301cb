"""Ray Tune's searcher over the ledger: hands out packs, and tells the ledger what came back or who died.

It lives in the driver only. Ray pickles it once, to restore an experiment with it, which never happens here: a search
that is resumed makes a new searcher for the trials that the ledger still lacks.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakValueDictionary

from ray.tune.search.searcher import Searcher

from tune_vfl.defenses.base import DEFENSES
from tune_vfl.ledger.finite import read_outcome
from tune_vfl.ledger.ledger import MAX_WORKER_LOSSES, Ledger
from tune_vfl.outcome import Outcome
from tune_vfl.search.packs import shortened
from tune_vfl.search.proposals import Proposals
from tune_vfl.spec.cell import Cell, References

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tune_vfl.ledger.ledger import Lost
    from tune_vfl.ledger.records import TrialRecord
    from tune_vfl.search.losses import Cause

# After so many lost packs in a row, without one that answered, the search gives up: workers cannot run here.
_MAX_LOSSES_IN_A_ROW = 4 * MAX_WORKER_LOSSES

DIED = "its worker process died"
HUNG = "its worker did not come back, stuck in compiled code, and was killed"
NODE_GONE = "the machine that it ran on went away"
NO_MEMORY = "its worker was ended because the machine ran out of memory"


class Watcher(Protocol):
    """Who wants to know how the search goes; called in the driver's own thread, must be quick."""

    def on_ask(self, count: int) -> None:
        """So many trials were handed out."""

    def on_tell(self, record: TrialRecord) -> None:
        """A trial was finished."""

    def on_baseline(self, outcome: Outcome) -> None:
        """The undefended model was measured."""


@dataclass(frozen=True)
class RunSettings:
    """How one run of a search is carried out.

    Attributes:
        pack: trials a pack.
        workers: packs at once, at the start.
        room: asked again and again how many packs may run at once.
        deadline: the moment (``time.monotonic``) after which nothing new is asked.
        options: the trainable's.
        baseline: the undefended model is to be measured.
    """

    pack: int
    workers: int
    room: Callable[[], int]
    deadline: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = False


class LedgerSearcher(Searcher):  # type: ignore[misc]
    """Suggests packs until the study's budget of trials is used up.

    Args:
        ledger: recovered, with its references measured.
        settings: how the run is carried out.
        watchers: who is told.
    """

    def __init__(self, ledger: Ledger, settings: RunSettings, watchers: tuple[Watcher, ...] = ()) -> None:
        super().__init__(metric=None, mode=None)
        self._ledger, self._settings, self._watchers = ledger, settings, watchers
        self._proposals = Proposals(ledger)
        record = ledger.record()
        self._owed = record.waiting
        packs = -(-self._owed // settings.pack) + settings.baseline
        self._flying: dict[str, list[int]] = {}
        self._baseline = "owed" if settings.baseline else "done"
        self._baseline_losses = 0
        self._losses_in_a_row = 0
        self._causes: dict[str, Cause] = {}
        self._pack = settings.pack
        self._fixed = self._fixed_config(min(settings.workers, packs))
        self.stopped = False
        self.failure: Exception | None = None
        _SEARCHERS[ledger.session] = self

    def __reduce__(self) -> tuple[Callable[[str], LedgerSearcher], tuple[str]]:
        """Travel as a name: database and lease stay in this process."""
        return (_searcher_of, (self._ledger.session,))

    def stop(self) -> None:
        """Hand out no more packs; the outcomes of those that are running are still written to the ledger."""
        self.stopped = True

    @property
    def hopeless(self) -> bool:
        """Whether workers die one after the other."""
        return self._losses_in_a_row >= _MAX_LOSSES_IN_A_ROW

    def _over(self) -> bool:
        late = self._settings.deadline is not None and time.monotonic() > self._settings.deadline
        return self.stopped or late or self.hopeless

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
        if self._over():
            return str(Searcher.FINISHED)
        if len(self._flying) >= self._settings.room():
            return None
        if self._baseline == "owed":
            self._baseline = "flying"
            self._flying[trial_id] = []
            return self._config([{}], self._undefended)
        asked = self._proposals.ask(min(self._pack, self._owed), trial_id) if self._owed > 0 else []
        if not asked:
            # A running pack may still be lost and asked again: the search is finished only when none is running.
            return None if self._flying else str(Searcher.FINISHED)
        self._owed -= len(asked)
        self._flying[trial_id] = [a.number for a in asked]
        for watcher in self._watchers:
            watcher.on_ask(len(asked))
        return self._config([a.params for a in asked], self._cell)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tell a pack's outcomes."""
        self.on_trial_complete(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell a pack's outcomes, or that it was lost. A second call for the same pack changes nothing."""
        numbers = self._flying.pop(trial_id, None)
        if numbers is None or self.failure is not None:
            return
        sent = (result or {}).get("outcomes")
        with self._noted():
            if error or sent is None:
                self._lost(numbers, self._causes.pop(trial_id, "crash"))
            else:
                self._end(numbers, sent)

    def lost_because(self, trial_id: str, cause: Cause) -> None:
        """Hear why a pack is about to be told as lost."""
        self._causes[trial_id] = cause

    def seconds_allowed(self, trial_id: str) -> float | None:
        """Return how long a pack that runs may take by its trials' limits; None without a limit.

        A pack that fails as one is tried again one by one, each with its own limit.
        """
        minutes, numbers = self._ledger.cell.trial_minutes, self._flying.get(trial_id)
        if minutes is None or numbers is None:
            return None
        return minutes * 60 * (2 * len(numbers) if len(numbers) > 1 else 1)

    def give_up(self, trial_id: str) -> int:
        """Tell the ledger of a pack that does not come back: a trial alone is a timeout, several are asked again alone.

        Returns:
            How many trials it had; the undefended model counts as one.
        """
        numbers = self._flying.pop(trial_id, None)
        if numbers is None:
            return 0
        with self._noted():
            if len(numbers) > 1:
                self._lose(numbers, "worker", HUNG)
                return len(numbers)
            timeout = Outcome.failed("timeout", f"{HUNG}, over trial_minutes = {self._ledger.cell.trial_minutes}")
            if numbers:
                self._told(self._ledger.tell(numbers[0], timeout))
            else:
                self._keep_baseline(timeout)
        return 1

    def _end(self, numbers: list[int], sent: Sequence[Any]) -> None:
        self._losses_in_a_row = 0
        if numbers:
            for number, raw in zip(numbers, sent, strict=True):
                self._told(self._ledger.tell(number, read_outcome(raw)))
        else:
            self._keep_baseline(read_outcome(sent[0]))

    def _lost(self, numbers: list[int], cause: Cause) -> None:
        """Tell of a lost pack. Only a node that went away says nothing of what ran on it, and is not counted."""
        self._losses_in_a_row += cause != "node"
        if not numbers:
            self._baseline_lost(cause)
        elif cause == "memory" and len(numbers) > 1:
            self._pack = min(self._pack, -(-len(numbers) // 2))
            self._lose(numbers, "memory", NO_MEMORY)
        elif cause == "memory":
            self._lose(numbers, "worker", NO_MEMORY, ends_as="oom")
        elif cause == "node":
            self._lose(numbers, "node", NODE_GONE)
        else:
            self._lose(numbers, "worker", DIED)

    def _lose(self, numbers: list[int], lost: Lost, why: str, ends_as: Literal["error", "oom"] = "error") -> None:
        for number in numbers:
            self._told(self._ledger.lose(number, lost, why, ends_as=ends_as))

    def _baseline_lost(self, cause: Cause) -> None:
        self._baseline_losses += cause != "node"
        if self._baseline_losses < MAX_WORKER_LOSSES:
            self._baseline = "owed"
        elif cause == "memory":
            self._keep_baseline(Outcome.failed("oom", f"{NO_MEMORY}, {self._baseline_losses} times"))
        else:
            self._keep_baseline(Outcome.failed("error", f"{DIED} {self._baseline_losses} times"))

    def _told(self, record: TrialRecord | None) -> None:
        if record is None:
            return
        self._owed += record.outcome.outcome == "preempted"
        self._proposals.learn(record)
        self._pack = shortened(self._pack, sum(record.outcome.seconds.values()))
        for watcher in self._watchers:
            watcher.on_tell(record)

    def _keep_baseline(self, outcome: Outcome) -> None:
        self._baseline = "done"
        self._ledger.set_baseline(outcome)
        for watcher in self._watchers:
            watcher.on_baseline(outcome)

    @property
    def _cell(self) -> str:
        return self._ledger.cell.model_dump_json()

    @property
    def _undefended(self) -> str:
        return undefended(self._ledger.cell).model_dump_json()

    def _fixed_config(self, together: int) -> dict[str, Any]:
        references = self._ledger.references or References()
        return {
            "references": references.model_dump_json(),
            "options": dict(self._settings.options),
            "gate": {"key": f"gate/{self._ledger.session}", "count": together},
        }

    def _config(self, params: list[dict[str, Any]], cell: str) -> dict[str, Any]:
        return {**self._fixed, "cell": cell, "params": params}

    def save(self, checkpoint_path: str) -> None:
        """Keep nothing: the ledger is the only record."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


_SEARCHERS: WeakValueDictionary[str, LedgerSearcher] = WeakValueDictionary()


def _searcher_of(session: str) -> LedgerSearcher:
    return _SEARCHERS[session]


def undefended(cell: Cell) -> Cell:
    """Return the cell without its defense, and with more seeds: the baseline."""
    changes: dict[str, Any] = {"defense": "none", "fixed": {}, "seeds": cell.seeds_of_undefended}
    if DEFENSES[cell.defense].capabilities.head == "scalar":
        changes["model"] = cell.model.model_copy(update={"head": "auto"})
    return cell.model_copy(update=changes)

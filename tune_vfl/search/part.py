"""One study of a search: what is asked of it, and what the ledger is told of what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from tune_vfl.outcome import Outcome, read_outcome
from tune_vfl.samplers.base import SAMPLERS
from tune_vfl.search.packs import shortened
from tune_vfl.search.proposals import Proposals
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.ledger import Ledger, Lost
    from tune_vfl.records.studies import TrialRecord
    from tune_vfl.search.worker_failures import Cause

DIED = "its worker process died"
HUNG = "its worker did not come back, stuck in compiled code, and was killed"
NODE_GONE = "the machine that it ran on went away"
NO_MEMORY = "its worker was ended because the machine ran out of memory"


class Watcher(Protocol):
    """Who wants to know how the search goes; called in the driver's own thread, must be quick."""

    def on_ask(self, study: str, count: int) -> None:
        """So many trials of a study were handed out."""

    def on_tell(self, study: str, record: TrialRecord) -> None:
        """A trial of a study was finished."""

    def on_baseline(self, studies: Sequence[str], outcome: Outcome) -> None:
        """The undefended model of these studies was measured."""


class TrialPack(NamedTuple):
    """Some trials of a study, which one worker evaluates.

    Attributes:
        part: the study.
        numbers: of the trials.
    """

    part: Part
    numbers: Sequence[int]

    @property
    def trials(self) -> int:
        """How many they are."""
        return len(self.numbers)

    @property
    def seconds_allowed(self) -> float | None:
        """How long they may take; None without a limit."""
        return self.part.seconds_allowed(self.numbers)

    def end(self, sent: Sequence[Any], /) -> None:
        """Tell what came back."""
        self.part.end(self.numbers, sent)

    def lose(self, cause: Cause, /) -> None:
        """Tell that their worker has failed."""
        self.part.lose(self.numbers, cause)


class Part:
    """One study of a search.

    Args:
        ledger: recovered, with its references measured.
        pack: how many of its trials a pack holds.
        watchers: who is told.
        blind_pack: how many while its sampler does not look at what came back; ``pack`` where that is more.

    Attributes:
        name: the study's.
        taken: how many trials have been asked of it that have not been lost.
        dry: it has nothing new to ask until a trial of it is told.
    """

    def __init__(self, ledger: Ledger, pack: int, watchers: Sequence[Watcher] = (), blind_pack: int = 1) -> None:
        record = ledger.record()
        self.name = ledger.study.name
        self.taken, self._owed = len(record.counted) + record.running, record.waiting
        self.dry = False
        self._ledger, self._pack, self._watchers = ledger, pack, watchers
        self._blind_pack = max(pack, blind_pack)
        self._proposals = Proposals(ledger)

    @property
    def _blind(self) -> int:
        """How many trials its sampler still asks for without a look at what came back, of those that it owes."""
        return int(min(self._owed, max(0, SAMPLERS[self._ledger.spec.sampler.name].blind - self.taken)))

    @property
    def owes(self) -> bool:
        """Whether it has trials to ask for now."""
        return self._owed > 0 and not self.dry

    def ask(self, trial_id: str) -> tuple[list[int], list[dict[str, Any]]]:
        """Ask for a pack's trials and write them; none where the space has nothing new.

        Args:
            trial_id: the pack.

        Returns:
            The trials' numbers and their parameters.
        """
        size = max(self._pack, min(self._blind_pack, self._blind))
        asked = self._proposals.ask(min(size, self._owed), trial_id)
        self.dry = not asked
        self._owed -= len(asked)
        self.taken += len(asked)
        for watcher in self._watchers if asked else ():
            watcher.on_ask(self.name, len(asked))
        return [a.number for a in asked], [a.params for a in asked]

    def pack(self, params: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the pack of settings as a worker is asked it, see :mod:`trainables.base`."""
        references = self._ledger.references or References()
        cell = self._ledger.cell.model_dump_json()
        return {"cell": cell, "params": params, "references": references.model_dump_json()}

    def seconds_allowed(self, numbers: Sequence[int]) -> float | None:
        """Return how long a pack may take by its trials' limits; None without a limit.

        A pack that fails as one is tried again one by one, each with its own limit.
        """
        minutes = self._ledger.cell.trial_minutes
        return None if minutes is None else minutes * 60 * (2 * len(numbers) if len(numbers) > 1 else 1)

    def end(self, numbers: Sequence[int], sent: Sequence[Any]) -> None:
        """Tell what came back of a pack."""
        outcomes = {number: read_outcome(raw) for number, raw in zip(numbers, sent, strict=True)}
        for record in self._ledger.tell_together(outcomes):
            self._told(record)

    def lose(self, numbers: Sequence[int], cause: Cause) -> None:
        """Tell that the worker of a pack has failed: a trial alone may end by it, several are asked again."""
        if cause == "timeout" and len(numbers) == 1:
            timeout = Outcome.failed("timeout", f"{HUNG}, over trial_minutes = {self._ledger.cell.trial_minutes}")
            self._told(self._ledger.tell(numbers[0], timeout))
        elif cause == "timeout":
            self._lose(numbers, "worker", HUNG)
        elif cause == "memory" and len(numbers) > 1:
            self._limit(-(-len(numbers) // 2))
            self._lose(numbers, "memory", NO_MEMORY)
        elif cause == "memory":
            self._lose(numbers, "worker", NO_MEMORY, ends_as="oom")
        elif cause == "node":
            self._lose(numbers, "node", NODE_GONE)
        else:
            self._lose(numbers, "worker", DIED)

    def _lose(self, numbers: Sequence[int], lost: Lost, why: str, ends_as: Literal["error", "oom"] = "error") -> None:
        for number in numbers:
            self._told(self._ledger.lose(number, lost, why, ends_as=ends_as))

    def _limit(self, most: int) -> None:
        """Let no later pack hold more trials."""
        self._pack, self._blind_pack = min(self._pack, most), min(self._blind_pack, most)

    def _told(self, record: TrialRecord | None) -> None:
        if record is None:
            return
        again = record.outcome.outcome == "preempted"
        self._owed += again
        self.taken -= again
        self.dry = False
        self._proposals.learn(record)
        self._limit(shortened(self._blind_pack, sum(record.outcome.seconds.values())))
        for watcher in self._watchers:
            watcher.on_tell(self.name, record)

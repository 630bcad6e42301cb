"""One study of a search: propose its trials, and store their outcomes in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tune_vfl.driver.proposals import Proposals
from tune_vfl.execution.losses import Cause, Loss
from tune_vfl.execution.pack_sizes import seconds_of, shortened
from tune_vfl.outcome import read_outcome
from tune_vfl.samplers.base import SAMPLERS
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.studies import TrialRecord


class Observer(Protocol):
    """Follows a search; called in the driver's own thread, must be quick."""

    def on_ask(self, study: str, count: int) -> None:
        """Note that trials of a study started."""

    def on_tell(self, study: str, record: TrialRecord) -> None:
        """Note that a trial of a study ended."""

    def on_baseline(self, studies: Sequence[str], outcome: Outcome) -> None:
        """Note that the undefended model of these studies was measured."""


class TrialPack(NamedTuple):
    """Trials of a study for one worker.

    Attributes:
        study: the study.
        numbers: the trials' numbers.
        params: the trials' parameters.
    """

    study: StudyRun
    numbers: Sequence[int]
    params: Sequence[dict[str, Any]]

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.numbers)

    @property
    def seconds_allowed(self) -> float | None:
        """The time limit in seconds; None without a limit."""
        return seconds_of(len(self.numbers), self.study.trial_minutes)

    def message(self) -> dict[str, Any]:
        """Return the worker's configuration, see :mod:`trainables.base`."""
        return self.study.message(self.params)

    def end(self, sent: Sequence[Any], /) -> None:
        """Store the outcomes."""
        self.study.end(self.numbers, sent)

    def lose(self, cause: Cause, /) -> None:
        """Store that the worker failed."""
        self.study.lose(self.numbers, cause)


class StudyRun:
    """One study of a search.

    Args:
        ledger: of the study, recovered.
        pack: the number of trials in a pack.
        observers: called after each event.
        blind_pack: the number of trials in a pack while the sampler ignores outcomes; ``pack`` if that is more.

    Attributes:
        name: the study's.
        taken: the number of started trials, without lost ones.
        exhausted: the sampler has no new point until a trial of the study ends.
    """

    def __init__(self, ledger: Ledger, pack: int, observers: Sequence[Observer] = (), blind_pack: int = 1) -> None:
        record = ledger.record()
        self.name = ledger.study.name
        self.taken, self._pending = len(record.counted) + record.running, record.waiting
        self.exhausted = False
        self._ledger, self._pack, self._observers = ledger, pack, observers
        self._blind_pack = max(pack, blind_pack)
        self._proposals = Proposals(ledger)

    @property
    def _blind(self) -> int:
        """The number of pending trials that the sampler proposes without a look at outcomes."""
        return int(min(self._pending, max(0, SAMPLERS[self._ledger.spec.sampler.name].blind - self.taken)))

    @property
    def has_pending(self) -> bool:
        """Whether a trial of it can start now."""
        return self._pending > 0 and not self.exhausted

    def next_pack(self, pack_id: str) -> TrialPack | None:
        """Start a pack of trials and store them as running; None where the space has nothing new."""
        size = max(self._pack, min(self._blind_pack, self._blind))
        started = self._proposals.ask(min(size, self._pending), pack_id)
        self.exhausted = not started
        if not started:
            return None
        self._pending -= len(started)
        self.taken += len(started)
        for observer in self._observers:
            observer.on_ask(self.name, len(started))
        return TrialPack(self, [trial.number for trial in started], [trial.params for trial in started])

    @property
    def trial_minutes(self) -> float | None:
        """The time limit of one trial; None without a limit."""
        return self._ledger.cell.trial_minutes

    def message(self, params: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return a worker's configuration for settings, see :mod:`trainables.base`."""
        references = self._ledger.references or References()
        cell = self._ledger.cell.model_dump_json()
        data = self._ledger.study.data
        return {"cell": cell, "params": list(params), "references": references.model_dump_json(), "data": data}

    def end(self, numbers: Sequence[int], sent: Sequence[Any]) -> None:
        """Store the outcomes of a pack."""
        outcomes = {number: read_outcome(raw) for number, raw in zip(numbers, sent, strict=True)}
        for record in self._ledger.tell_together(outcomes):
            self._store(record)

    def lose(self, numbers: Sequence[int], cause: Cause) -> None:
        """Store that the worker of a pack failed; its trials are asked again, or end.

        Losses are counted in the ledger, so that those of earlier runs count too.
        """
        loss = Loss(cause, len(numbers), self.trial_minutes)
        if loss.counts_as == "memory":
            self._limit(loss.together)
        for number in numbers:
            outcome = loss.outcome(1 + self._ledger.losses_before(number, loss.counts_as))
            lost = None if outcome.outcome == "timeout" else loss.counts_as
            self._store(self._ledger.tell(number, outcome, lost))

    def _limit(self, most: int) -> None:
        """Limit the size of later packs."""
        self._pack, self._blind_pack = min(self._pack, most), min(self._blind_pack, most)

    def _store(self, record: TrialRecord | None) -> None:
        if record is None:
            return
        again = record.outcome.outcome == "preempted"
        self._pending += again
        self.taken -= again
        self.exhausted = False
        self._proposals.learn(record)
        self._limit(shortened(self._blind_pack, sum(record.outcome.seconds.values())))
        for observer in self._observers:
            observer.on_tell(self.name, record)

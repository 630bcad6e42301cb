"""One study of a search: propose its trials, and store their outcomes in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tune_vfl.driver.proposals import Proposals
from tune_vfl.execution.jobs import Job
from tune_vfl.execution.pack_sizes import shortened
from tune_vfl.outcome import read_outcome
from tune_vfl.samplers.base import SAMPLERS
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.execution.losses import Cause
    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.studies import StudyRecord, TrialRecord


class SearchObserver(Protocol):
    """Follows a search; called in the driver's own thread, must be quick."""

    def on_ask(self, study: str, count: int) -> None:
        """Note that trials of a study started."""

    def on_tell(self, study: str, record: TrialRecord) -> None:
        """Note that a trial of a study ended."""

    def on_baseline(self, records: Sequence[StudyRecord], outcome: Outcome) -> None:
        """Note that the undefended model of these studies was measured."""


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
        ended: the study's ``stop`` lets nothing more start.
    """

    def __init__(
        self, ledger: Ledger, pack: int, observers: Sequence[SearchObserver] = (), blind_pack: int = 1
    ) -> None:
        record = ledger.record()
        self.name = ledger.study.name
        self.taken, self._pending = len(record.counted) + record.running, record.waiting
        self.exhausted, self.ended = False, bool(record.ended)
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
        return self._pending > 0 and not self.exhausted and not self.ended

    def next_job(self, job_id: str, /) -> Job | None:
        """Start a pack of trials and store them as running; None where the space has nothing new."""
        size = max(self._pack, min(self._blind_pack, self._blind))
        started = self._proposals.ask(min(size, self._pending), job_id)
        self.exhausted = not started
        if not started:
            return None
        self._pending -= len(started)
        self.taken += len(started)
        for observer in self._observers:
            observer.on_ask(self.name, len(started))
        cell, settings = self._ledger.cell, {trial.number: trial.params for trial in started}
        more = {"references": (self._ledger.references or References()).model_dump_json()}
        return Job(cell, self._ledger.study.data, settings, minutes=cell.trial_minutes, more=more)

    def store(self, job: Job, answers: Sequence[Any], /) -> None:
        """Store the outcomes of a pack."""
        outcomes = {number: read_outcome(raw) for number, raw in zip(job.settings, answers, strict=True)}
        for record in self._ledger.tell_together(outcomes):
            self._learn(record)
        self._see_the_end()

    def lose(self, job: Job, cause: Cause, /) -> None:
        """Store that the worker of a pack failed; its trials are asked again, or end.

        Losses are counted in the ledger, so that those of earlier runs count too.
        """
        loss = job.loss(cause)
        if loss.counts_as == "memory":
            self._limit(loss.together)
        for number in job.settings:
            outcome = loss.outcome(1 + self._ledger.losses_before(number, loss.counts_as))
            lost = None if outcome.outcome == "timeout" else loss.counts_as
            self._learn(self._ledger.tell(number, outcome, lost))
        self._see_the_end()

    def _see_the_end(self) -> None:
        """Ask the ledger whether the study has come to its end, as another process would."""
        if self._ledger.spec.stop.front is not None:
            self.ended = bool(self._ledger.record().ended)

    def _limit(self, most: int) -> None:
        """Limit the size of later packs."""
        self._pack, self._blind_pack = min(self._pack, most), min(self._blind_pack, most)

    def _learn(self, record: TrialRecord | None) -> None:
        """Note a trial that has an outcome now; None was known before."""
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

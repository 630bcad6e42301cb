"""Run a campaign or a single study: every trial and measurement that its ledger lacks."""

from __future__ import annotations

import io
import math
import time
from functools import cached_property
from typing import TYPE_CHECKING

from tune_vfl.analysis.alternatives import ended
from tune_vfl.driver.costs import Cost, owed_costs
from tune_vfl.driver.progress import ProgressReport
from tune_vfl.driver.reference_scores import ReferenceScores, alike
from tune_vfl.driver.sinks import Dispatcher, Sink
from tune_vfl.driver.source import SearchJobs
from tune_vfl.driver.study_run import SearchObserver, StudyRun
from tune_vfl.driver.undefended import shared
from tune_vfl.errors import TuneVflError
from tune_vfl.evaluation.code import code_of
from tune_vfl.execution.pack_sizes import BLIND_LANES, pack_size
from tune_vfl.execution.runner import Runner, leased
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.kernels.compiled import obstacle
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import StoredStudy
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import answered
from tune_vfl.machine.streams import tell
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.samplers.base import SAMPLERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.ledger.lease import Lease
    from tune_vfl.records.studies import StudyRecord


def run_campaign(
    campaign: PlannedCampaign,
    *,
    sinks: Sequence[Sink] = (),
    progress: bool = True,
    work: TrainableSpec | None = None,
    storage: str | None = None,
    take_over: bool = False,
    other_code: bool = False,
) -> bool:
    """Run all studies of a campaign at once with the same workers, from the start or from the last run's end.

    Args:
        campaign: the plan; a single study is a campaign of one.
        sinks: receivers of trials and studies, called in a thread of their own.
        progress: show progress on stderr.
        work: the trainable; None trains and attacks for real.
        storage: the ledger's database, instead of the spec's.
        take_over: end another process that holds the campaign.
        other_code: go on although source files that measure have changed since the last run.

    Returns:
        Whether it was stopped before the budget was used up.

    Raises:
        StudyError: when a name belongs to another spec, another process runs this, or takes it over, or the code has
            changed.
        SpecError: when no pack finds room on the machine.
        UnreachableError: when the ledger or the cluster does not answer.
        TuneVflError: when the ledger has lost outcomes that it had taken, and the run went to its end.
        KeyboardInterrupt: after Ctrl-C while nothing runs yet, after a second one, and after SIGTERM.
    """
    name, spec = campaign.name, campaign.studies[0].spec
    place = storage_at(storage or spec.storage)
    nothing_yet = f"{name}: left before anything was begun; the same command begins again"
    with leased(name, place, spec.resources, lambda: nothing_yet, take_over=take_over) as lease:
        if lease.taken_from is not None:
            tell(f"{name!r} is taken over from {lease.taken_from}")
        ledgers = Ledger.of_campaign(campaign, place, lease)
        try:
            with answered(lambda: f"{name}: left; {_kept_by(name)}"):
                run = _CampaignRun(campaign, ledgers, work, lease, other_code=other_code)
                return run.run(sinks, progress=progress)
        finally:
            for ledger in ledgers:
                ledger.close()


def _kept_by(name: str) -> str:
    """Return a sentence for a run that is left at once: finished trials are kept, running ones are repeated."""
    return f"what was finished is kept, what was running is asked again: 'tune-vfl resume {name}' goes on"


class _CampaignRun:
    """One run of a campaign, under its lease."""

    def __init__(
        self,
        campaign: PlannedCampaign,
        ledgers: Sequence[Ledger],
        work: TrainableSpec | None,
        lease: Lease,
        *,
        other_code: bool = False,
    ) -> None:
        self._name, self._ledgers, self._given, self._lease = campaign.name, ledgers, work, lease
        self._other_code = other_code
        # What only says how to run comes from the spec of this run, not from the one the study began with.
        spec = campaign.studies[0].spec
        self._resources, self._minutes = spec.resources, spec.budget.minutes
        self._models = shared(ledgers)
        self._studies: list[StudyRun] = []
        self._report: ProgressReport

    def run(self, sinks: Sequence[Sink], *, progress: bool) -> bool:
        """Run every missing trial and measurement; return whether the run was stopped early."""
        lost = sum(len(ledger.recover()) for ledger in self._ledgers)
        with Dispatcher(sinks) as dispatcher:
            owed = self._waiting() or any(model.pending for model in self._models)
            if owed or any(cost.pending and cost.wanted for cost in self._costs):
                for ledger in self._ledgers:  # which source files measure it from now on; others may be refused
                    if note := ledger.keep_code(code_of(ledger.cell, self._work.trainable), accepted=self._other_code):
                        tell(f"tune-vfl: {note}")
                return self._search(dispatcher, lost, progress=progress)
            self._tell_all(dispatcher)
            return False

    @cached_property
    def _work(self) -> TrainableSpec:
        return self._given or TrainableSpec.real()

    @cached_property
    def _costs(self) -> list[Cost]:
        return owed_costs(self._ledgers, self._work, self._say)

    def _say(self, message: str) -> None:
        """Print a message where progress is shown."""
        self._report.say(message)

    def _without_machine_code(self) -> bool:
        """Print why no compiled kernels are used, if so; return whether that is so."""
        why = obstacle()
        if why:
            self._say(f"torch alone trains, up to twice as slow: {why}")
        return bool(why)

    def _waiting(self) -> int:
        return sum(ledger.record().waiting for ledger in self._ledgers)

    def _tell_all(self, dispatcher: Dispatcher) -> dict[str, StudyRecord]:
        """Pass all studies of the campaign to the sinks, also those that this run does not search.

        Returns:
            They, by name, as the ledger has them: what this process remembers of them is not looked at.
        """
        first = self._ledgers[0]
        whole = StoredStudy(first.place, first.study.experiment)
        stored = {part.study.name: part.record() for part in whole.parts()}
        for record in stored.values():
            dispatcher.on_study(record)
        return stored

    def _search(self, dispatcher: Dispatcher, lost: int, *, progress: bool) -> bool:
        deadline = time.monotonic() + self._minutes * 60 if self._minutes else None
        records = [ledger.record() for ledger in self._ledgers]
        self._report = ProgressReport(self._name, records, None if progress else io.StringIO())
        try:
            slow = self._without_machine_code()
            if lost:
                self._say(f"{lost} trials were running when the search was last stopped; they are asked again")
            self._report.until_it_steps()
            runner = self._runner()
            source = self._source(dispatcher, runner.capacity(), deadline)
            self._report.progress.beside = source.beside
            stopped = runner.run(source)
        finally:
            self._report.close()
        if not slow:  # the first search on a machine finds out as it goes
            self._without_machine_code()
        stored = self._tell_all(dispatcher)
        owed = sum(stored[ledger.study.name].waiting for ledger in self._ledgers)
        if gone := self._gone(stored):
            said = (
                f"{self._name}: the ledger has lost {gone} that it had taken, as after a failover to a server that "
                f"lagged behind, or with a restored backup: 'tune-vfl resume {self._name}' measures again what is owed"
            )
            if not stopped and (deadline is None or time.monotonic() <= deadline):
                raise TuneVflError(said)
            tell(f"{said}")
        for sentence in ended(stored.values()):
            self._say(sentence)
        if owed:
            why = "stopped" if stopped else "out of time"
            self._say(f"{why}; {owed} trials are owed: 'tune-vfl resume {self._name}'")
        return stopped and owed > 0

    def _runner(self) -> Runner:
        return Runner(
            self._name,
            self._lease,
            self._resources,
            self._work,
            datasets=[ledger.cell.dataset for ledger in self._ledgers],
            left=lambda: f"{self._name}: left at once; {_kept_by(self._name)}",
            say=self._say,
            stopping=self._report.progress.stopping,
            each_step=self._report.step,
        )

    def _gone(self, stored: Mapping[str, StudyRecord]) -> str:
        """Return what was told to the ledger and is not in it; empty where all of it is."""
        trials = sum(max(0, study.taken - len(stored[study.name].counted)) for study in self._studies)
        measured = all(model.over for model in self._models)
        models = sum(measured and stored[ledger.study.name].baseline is None for ledger in self._ledgers)
        lost = {"outcomes": trials, "undefended models": models}
        return " and ".join(f"{count} {what}" for what, count in lost.items() if count)

    def _references(self, dispatcher: Dispatcher) -> list[ReferenceScores]:
        """Return the measurements of reference scores; once all are known, pass the studies to the sinks."""

        def known() -> None:
            if all(measurement.enough for measurement in references):
                self._tell_all(dispatcher)
                self._report.progress.follow([ledger.record() for ledger in self._ledgers])

        references = [ReferenceScores(group, self._name, known) for group in alike(self._ledgers)]
        if all(measurement.enough for measurement in references):
            self._tell_all(dispatcher)
        return references

    def _source(self, dispatcher: Dispatcher, most: int, deadline: float | None) -> SearchJobs:
        """Return the source of jobs, of which at most ``most`` run at once."""
        observers: tuple[SearchObserver, ...] = (dispatcher, self._report)
        for model in self._models:
            model.observers = observers
        references = self._references(dispatcher)
        waiting = {ledger.study.name: ledger.record().waiting for ledger in self._ledgers}
        everything = self._waiting() + sum(model.pending for model in self._models)
        workers = min(most, everything)
        for ledger in self._ledgers:
            trials = max(1, waiting[ledger.study.name])
            own = max(1, math.ceil(workers * trials / max(1, everything)))
            pack, blind_pack = self._packs(ledger, trials, own)
            self._studies.append(StudyRun(ledger, pack, observers, blind_pack))
        return SearchJobs(self._studies, references, self._models, self._costs, deadline)

    def _packs(self, ledger: Ledger, trials: int, workers: int) -> tuple[int, int]:
        """Return the trials of a pack of a study, and those while its sampler ignores outcomes.

        Args:
            ledger: the study's.
            trials: the number of pending trials.
            workers: the number of workers for them.
        """
        alike = self._resources.pack == "auto" and not ledger.space.ordinary
        most = self._work.trainable.most_per_pack(ledger.cell) if alike else 1
        blind = int(min(trials, max(1, SAMPLERS[ledger.spec.sampler.name].blind)))
        how = {"seeds": len(ledger.cell.seeds), "workers": workers, "most": most}
        return (
            pack_size(self._resources, trials=trials, **how),
            pack_size(self._resources, trials=blind, lanes=BLIND_LANES, **how),
        )

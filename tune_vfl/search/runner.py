"""Run a campaign, or a lone study: whatever its ledger still lacks."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import TuneVflError
from tune_vfl.kernels.compiled import obstacle
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import StoredStudy
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import answered
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.samplers.base import SAMPLERS
from tune_vfl.search import ray_session as cluster
from tune_vfl.search.costs import Cost, owed_costs
from tune_vfl.search.errands import Errands
from tune_vfl.search.listeners import Dispatcher, Listener, Tee
from tune_vfl.search.packs import BLIND_LANES, pack_size
from tune_vfl.search.part import Part
from tune_vfl.search.progress import ProgressReport
from tune_vfl.search.references import ReferencesErrand
from tune_vfl.search.room import room_of
from tune_vfl.search.tuning import tuned
from tune_vfl.search.undefended import shared
from tune_vfl.search.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.lease import Lease
    from tune_vfl.records.plans import PlannedStudy
    from tune_vfl.search.part import Watcher
    from tune_vfl.search.room import Room
    from tune_vfl.search.searcher import LedgerSearcher


def run_study(study: PlannedStudy, **how: Any) -> bool:
    """Run one study, of a campaign or of none; arguments and errors are those of :func:`run_campaign`."""
    return run_campaign(PlannedCampaign.of(study), **how)


def run_campaign(
    campaign: PlannedCampaign,
    *,
    trials: int | None = None,
    listeners: Sequence[Listener] = (),
    progress: bool = True,
    work: Work | None = None,
    storage: str | None = None,
    take_over: bool = False,
) -> bool:
    """Run a campaign, from its start or from where it was left: all its studies at once, by the same workers.

    Args:
        campaign: what is run; a lone study is a campaign of one part.
        trials: of a lone study, a new budget of finished trials; None keeps the study's.
        listeners: who is told in a thread of their own.
        progress: show it on stderr.
        work: None is the real thing.
        storage: the ledger, instead of the one that the spec names.
        take_over: drive another process out that holds the campaign.

    Returns:
        Whether it was stopped before the budget was used up.

    Raises:
        StudyError: when a name belongs to another spec, another process runs this, or takes it over.
        SpecError: when no pack finds room on the machine.
        UnreachableError: when the ledger or the cluster does not answer.
        KeyboardInterrupt: after Ctrl-C while nothing runs yet, after a second one, and after SIGTERM.
    """
    name, spec = campaign.name, campaign.studies[0].spec
    place = storage_at(storage or spec.storage)
    with ExitStack() as held:
        held.enter_context(answered(lambda: f"{name}: left before anything was begun; the same command begins again"))
        held.enter_context(cluster.quiet_tune())
        lease = held.enter_context(place.lease(name, take_over=take_over, room=room_of(spec.resources)))
        if lease.taken_from is not None:
            sys.stderr.write(f"{name!r} is taken over from {lease.taken_from}\n")
        ledgers = Ledger.of_campaign(campaign, place, lease)
        try:
            if trials is not None:
                ledgers[0].extend(trials)
            with answered(lambda: f"{name}: left; {kept_and_owed(name)}"):
                run = _Run(campaign, ledgers, work, lease)
                return run.run(listeners, progress=progress)
        finally:
            for ledger in ledgers:
                ledger.close()


def kept_and_owed(name: str) -> str:
    """Say what becomes of what is left at once."""
    return f"what was finished is kept, what was running is asked again: 'tune-vfl resume {name}' goes on"


class _Run:
    """One run of a campaign, its lease held."""

    def __init__(self, campaign: PlannedCampaign, ledgers: Sequence[Ledger], work: Work | None, lease: Lease) -> None:
        self._name, self._ledgers, self._given, self._lease = campaign.name, ledgers, work, lease
        # What only says how to run comes from the spec of this run, not from the one the study began with.
        spec = campaign.studies[0].spec
        self._resources, self._minutes = spec.resources, spec.budget.minutes
        self._models = shared(ledgers)
        self._report: ProgressReport | None = None

    def run(self, listeners: Sequence[Listener], *, progress: bool) -> bool:
        """Run it and say whether it was stopped."""
        lost = sum(len(ledger.recover()) for ledger in self._ledgers)
        with Dispatcher(listeners) as dispatcher:
            owed = self._waiting() or any(model.owed for model in self._models)
            if owed or any(cost.owed and cost.wanted for cost in self._costs):
                return self._search(dispatcher, lost, progress=progress)
            self._tell_all(dispatcher)
            return False

    @cached_property
    def _work(self) -> Work:
        return self._given or Work.real()

    @cached_property
    def _costs(self) -> list[Cost]:
        return owed_costs(self._ledgers, self._work, self._say)

    def _say(self, message: str) -> None:
        """Tell a person something, where progress is shown."""
        if self._report:
            self._report.say(message)

    def _without_machine_code(self) -> bool:
        """Say why training is in torch alone, where it is; return whether it is."""
        why = obstacle()
        if why:
            self._say(f"torch alone trains, up to twice as slow: {why}")
        return bool(why)

    def _waiting(self) -> int:
        return sum(ledger.record().waiting for ledger in self._ledgers)

    def _tell_all(self, dispatcher: Dispatcher) -> None:
        """Tell all studies of the campaign, those too that this run has no part in: they are shown together."""
        run = {ledger.study.name: ledger for ledger in self._ledgers}
        first = self._ledgers[0]
        whole = StoredStudy(first.place, first.study.campaign or first.study.name)
        for part in whole.parts():
            dispatcher.on_study(run.get(part.study.name, part).record())

    def _search(self, dispatcher: Dispatcher, lost: int, *, progress: bool) -> bool:
        begun = time.monotonic()
        cluster.connect()
        room = cluster.room_for(self._resources, self._lease)
        room.packs()  # says that there is none, before anything waits for it
        if progress:
            self._report = ProgressReport(self._name, [ledger.record() for ledger in self._ledgers])
        slow = self._without_machine_code()
        if lost:
            self._say(f"{lost} trials were running when the search was last stopped; they are asked again")
        watchers: tuple[Watcher, ...] = (Tee(self._ledgers, dispatcher), *([self._report] if self._report else []))
        for model in self._models:
            model.watchers = watchers
        deadline = begun + self._minutes * 60 if self._minutes else None
        searcher = self._searcher(self._errands(dispatcher), room, deadline, watchers)
        stopped = self._fit(searcher)
        if self._report:
            self._report.close()
        if not slow:  # the first search on a machine finds out as it goes
            self._without_machine_code()
        self._tell_all(dispatcher)
        owed = self._waiting()
        if owed:
            why = "stopped" if stopped else "out of time"
            self._say(f"{why}; {owed} trials are owed: 'tune-vfl resume {self._name}'")
        return stopped and owed > 0

    def _errands(self, dispatcher: Dispatcher) -> Errands:
        """Return what is measured beside the trials.

        How things stand is told once it is known what attacks are compared with: now, or when the last of that is.
        """

        def known() -> None:
            if all(errand.over for errand in references):
                self._tell_all(dispatcher)
                if self._report:
                    self._report.progress.follow([ledger.record() for ledger in self._ledgers])

        references = [ReferencesErrand(model, self._name, known) for model in self._models]
        if all(errand.over for errand in references):
            self._tell_all(dispatcher)
        return Errands(references, self._models, self._costs)

    def _searcher(
        self, errands: Errands, room: Room, deadline: float | None, watchers: Sequence[Watcher]
    ) -> LedgerSearcher:
        from tune_vfl.search.searcher import LedgerSearcher, RunSettings

        owed = {ledger.study.name: ledger.record().waiting for ledger in self._ledgers}
        everything = self._waiting() + sum(model.owed for model in self._models)
        workers = min(room.packs(), everything)
        parts = []
        for ledger in self._ledgers:
            waiting = max(1, owed[ledger.study.name])
            own = max(1, math.ceil(workers * waiting / max(1, everything)))
            pack, blind_pack = self._packs(ledger, waiting, own)
            parts.append(Part(ledger, pack, watchers, blind_pack))
        settings = RunSettings(room.packs, deadline, self._work.options)
        return LedgerSearcher(parts, errands, settings)

    def _packs(self, ledger: Ledger, trials: int, workers: int) -> tuple[int, int]:
        """Return how many trials a pack of a study holds, and how many while its sampler does not look at results.

        Args:
            ledger: of the study.
            trials: how many it is to ask.
            workers: how many its packs have.
        """
        alike = self._resources.pack == "auto" and not ledger.space.ordinary
        most = self._work.trainable.most_per_pack(ledger.cell) if alike else 1
        blind = int(min(trials, max(1, SAMPLERS[ledger.spec.sampler.name].blind)))
        how = {"seeds": len(ledger.cell.seeds), "workers": workers, "most": most}
        return (
            pack_size(self._resources, trials=trials, **how),
            pack_size(self._resources, trials=blind, lanes=BLIND_LANES, **how),
        )

    def _fit(self, searcher: LedgerSearcher) -> bool:
        def stop() -> None:
            searcher.stop()
            if self._report:
                self._report.say(self._report.progress.stopping())

        with answered(lambda: f"{self._name}: left at once; {kept_and_owed(self._name)}", stop=stop) as signals:
            checks = (self._lease.check, signals.check)
            tuned(searcher, self._work.trainable, self._resources, checks, self._say)
        if searcher.hopeless:
            raise TuneVflError(
                f"{self._name!r}: workers die one after the other before they answer; "
                "run 'tune-vfl doctor', or give each more room (resources.concurrency: 1, resources.pack: 1)"
            )
        return searcher.stopped

"""Run a study: whatever its ledger still lacks."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import TuneVflError, UnreachableError
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.study import Study
from tune_vfl.machine.signals import answered
from tune_vfl.search import ray_session as cluster
from tune_vfl.search.listeners import Dispatcher, Listener
from tune_vfl.search.packs import pack_size
from tune_vfl.search.progress import ProgressReport
from tune_vfl.search.room import room_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trainables.base import PackTrainable
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.ledger.planned import PlannedStudy
    from tune_vfl.ledger.records import StudyRecord, TrialRecord
    from tune_vfl.outcome import Outcome
    from tune_vfl.search.room import Room
    from tune_vfl.search.searcher import LedgerSearcher, RunSettings, Watcher
    from tune_vfl.spec import StudySpec

# A baseline of one of these outcomes says nothing about the model: the next run measures it again.
_MEASURE_AGAIN = ("error", "oom", "timeout", "preempted")


@dataclass(frozen=True)
class Work:
    """What a study runs: the real trainable by default, another one for tests and benchmarks."""

    trainable: type[PackTrainable]
    options: Mapping[str, Any]

    @classmethod
    def real(cls) -> Work:
        """Return the real thing."""
        from trainables.cell import CellTrainable

        return cls(CellTrainable, {})


def run_study(
    study: PlannedStudy,
    *,
    trials: int | None = None,
    listeners: Sequence[Listener] = (),
    progress: bool = True,
    work: Work | None = None,
    storage: str | None = None,
    take_over: bool = False,
) -> Study:
    """Run a study, from its start or from where it was left.

    Args:
        study: what is run.
        trials: a new budget of finished trials; None keeps the study's.
        listeners: who is told in a thread of their own.
        progress: show it on stderr.
        work: None is the real thing.
        storage: the ledger, instead of the one that the spec names.
        take_over: drive another process out that holds the study.

    Returns:
        The study; ``stopped`` when it was stopped before its budget was used up.

    Raises:
        StudyError: when the name belongs to another spec, another process runs this study, or takes it over.
        SpecError: when no pack finds room on the machine.
        UnreachableError: when the ledger or the cluster does not answer.
        KeyboardInterrupt: after Ctrl-C while nothing runs yet, after a second one, and after SIGTERM.
    """
    place = storage_at(storage or study.spec.storage)
    with (
        answered(lambda: f"{study.name}: left before anything was begun; the same command begins again"),
        cluster.quiet_tune(),
        place.lease(study.name, take_over=take_over, room=room_of(study.spec.resources)) as lease,
    ):
        if lease.taken_from is not None:
            sys.stderr.write(f"study {study.name!r} is taken over from {lease.taken_from}\n")
        ledger = Ledger.create_or_open(study, place, lease)
        try:
            if trials is not None:
                ledger.extend(trials)
            with answered(lambda: f"{study.name}: left; {kept_and_owed(study.name)}"):
                stopped = _Run(ledger, work or Work.real(), study.spec, lease).run(listeners, progress=progress)
            return Study.of(ledger, stopped=stopped)
        finally:
            ledger.close()


def kept_and_owed(name: str) -> str:
    """Say what becomes of a study that is left at once."""
    return f"what was finished is kept, what was running is asked again: 'tune-vfl resume {name}' goes on"


class _Tee:
    """Tells finished trials to the listeners."""

    def __init__(self, ledger: Ledger, dispatcher: Dispatcher) -> None:
        self._ledger, self._dispatcher = ledger, dispatcher

    def on_ask(self, count: int) -> None:
        """Nothing to tell."""

    def on_tell(self, record: TrialRecord) -> None:
        """Pass the trial on."""
        self._dispatcher.on_trial(self._ledger.spec.study, record)

    def on_baseline(self, outcome: Outcome) -> None:
        """Pass the study on, now with its baseline."""
        self._dispatcher.on_study(self._ledger.record())


class _Run:
    """One run of a study, its lease held."""

    def __init__(self, ledger: Ledger, work: Work, spec: StudySpec, lease: Lease) -> None:
        self._ledger, self._work, self._lease = ledger, work, lease
        # What only says how to run comes from the spec of this run, not from the one the study began with.
        self._resources, self._minutes = spec.resources, spec.budget.minutes

    def run(self, listeners: Sequence[Listener], *, progress: bool) -> bool:
        """Run it and say whether it was stopped."""
        lost = self._ledger.recover()
        record = self._ledger.record()
        with Dispatcher(listeners) as dispatcher:
            if not record.waiting and not self._baseline_owed():
                dispatcher.on_study(record)
                return False
            return self._search(record, dispatcher, len(lost), progress=progress)

    def _baseline_owed(self) -> bool:
        baseline = self._ledger.baseline
        return baseline is None or baseline.outcome in _MEASURE_AGAIN

    def _search(self, record: StudyRecord, dispatcher: Dispatcher, lost: int, *, progress: bool) -> bool:
        begun = time.monotonic()
        cluster.connect()
        room = cluster.room_for(self._resources, self._lease)
        room.packs()  # says that there is none, before anything waits for it
        if self._ledger.references is None:
            self._measure()
            record = self._ledger.record()
        dispatcher.on_study(record)
        report = ProgressReport(record) if progress else None
        if report and lost:
            report.say(f"{lost} trials were running when the search was last stopped; they are asked again")
        watchers: tuple[Watcher, ...] = (_Tee(self._ledger, dispatcher), *([report] if report else []))
        stopped = self._fit(self._settings(record, room, begun), watchers, report)
        ended = self._ledger.record()
        dispatcher.on_study(ended)
        if report:
            report.close()
            if ended.waiting:
                why = "stopped" if stopped else "out of time"
                report.say(f"{why}; {ended.waiting} trials are owed: 'tune-vfl resume {ended.name}'")
        return stopped

    def _settings(self, record: StudyRecord, room: Room, begun: float) -> RunSettings:
        from tune_vfl.search.searcher import RunSettings

        owed = self._baseline_owed()
        trials = max(1, record.waiting)
        workers = min(room.packs(), trials + owed)
        alike = self._resources.pack == "auto" and not self._ledger.space.ordinary
        most = self._work.trainable.most_per_pack(self._ledger.cell) if alike else 1
        size = pack_size(self._resources, trials=trials, seeds=len(self._ledger.cell.seeds), workers=workers, most=most)
        deadline = begun + self._minutes * 60 if self._minutes else None
        return RunSettings(size, workers, room.packs, deadline, self._work.options, baseline=owed)

    def _measure(self) -> None:
        """Measure what belongs to the study and not to a trial, in a worker."""
        import ray

        from trainables.base import measured

        task = ray.remote(num_cpus=self._resources.cpu, num_gpus=self._resources.gpu, max_retries=2)(measured)
        call = task.remote(self._work.trainable, self._ledger.cell.model_dump_json(), dict(self._work.options))
        try:
            references, guess = ray.get(call)
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise UnreachableError(
                f"study {self._ledger.spec.study!r}: the worker that measures what attacks are compared with died "
                f"three times ({first}); give it more room, or run 'tune-vfl doctor', and start the same command again"
            ) from error
        self._ledger.set_references_and_reference_point(references, (guess, 1.0))

    def _fit(self, settings: RunSettings, watchers: tuple[Watcher, ...], report: ProgressReport | None) -> bool:
        from tune_vfl.search.searcher import LedgerSearcher

        searcher = LedgerSearcher(self._ledger, settings, watchers)

        def stop() -> None:
            searcher.stop()
            if report:
                report.say(report.progress.stopping())

        name = self._ledger.spec.study
        with answered(lambda: f"{name}: left at once; {kept_and_owed(name)}", stop=stop):
            self._tune(searcher, report.say if report else _silent)
        if searcher.hopeless:
            raise TuneVflError(
                f"study {name!r}: workers die one after the other before they answer; "
                "run 'tune-vfl doctor', or give each more room (resources.concurrency: 1, resources.pack: 1)"
            )
        return searcher.stopped

    def _tune(self, searcher: LedgerSearcher, say: Callable[[str], None]) -> None:
        import ray
        from ray import tune

        from tune_vfl.search.losses import LossReader
        from tune_vfl.search.watch import LeaseWatch, NodeWatch, PackWatch, RayDiedError

        folder = tempfile.mkdtemp(prefix="tune-vfl-")
        try:
            tuner = tune.Tuner(
                tune.with_resources(self._work.trainable, {"cpu": self._resources.cpu, "gpu": self._resources.gpu}),
                tune_config=tune.TuneConfig(
                    search_alg=searcher,
                    scheduler=LossReader(searcher.lost_because),
                    num_samples=-1,
                    reuse_actors=True,
                    trial_dirname_creator=_trial_id,
                    trial_name_creator=_trial_id,
                ),
                run_config=tune.RunConfig(
                    name="search",
                    storage_path=folder,
                    verbose=0,
                    callbacks=[NodeWatch(), LeaseWatch(self._lease), PackWatch(searcher, say)],
                    failure_config=tune.FailureConfig(max_failures=0),
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                ),
            )
            with cluster.uncounted():
                tuner.fit()
        except RayDiedError:
            ray.shutdown()  # the next study of this process starts a Ray of its own
            raise
        except Exception as error:
            if searcher.failure is None:
                raise
            raise searcher.failure from error  # Tune tells what its searcher raised as a text alone
        finally:
            shutil.rmtree(Path(folder), ignore_errors=True)


def _silent(_text: str) -> None:
    """Say nothing, where no progress is shown."""


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)

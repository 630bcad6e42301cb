"""Run a confirmation: whatever its study's ledger still lacks of it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tune_vfl.confirmation.answer import answer_of
from tune_vfl.confirmation.contest import Contest
from tune_vfl.confirmation.jobs import Floors, Job, cut
from tune_vfl.confirmation.pool import Died, Hung, Pool
from tune_vfl.confirmation.tuning import call_of, owed, with_attackers
from tune_vfl.ledger.confirmations import UNDEFENDED, records_of
from tune_vfl.ledger.finite import read_outcome
from tune_vfl.ledger.ledger import MAX_WORKER_LOSSES, Ledger
from tune_vfl.ledger.measure import refuse_another
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import answered
from tune_vfl.outcome import TunedAttack
from tune_vfl.search import ray_session as cluster
from tune_vfl.search.part import HUNG
from tune_vfl.search.room import room_of
from tune_vfl.search.runner import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tune_vfl.ledger.confirmations import Confirmation, Place
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.statistics import Plan

# What ends so says nothing about a setting. It is not kept, so that the next confirmation tries it again.
_TRY_AGAIN = ("error", "oom", "timeout", "preempted")


@dataclass(frozen=True)
class Confirmed:
    """How a confirmation ended.

    Attributes:
        answer: what it found; None when it was stopped before.
        failed: the settings that could not be measured, and why.
        owed: how many trainings a confirmation that was stopped had still to run, at least.
    """

    answer: Confirmation | None
    failed: Mapping[int, str] = field(default_factory=dict)
    owed: int = 0


def confirm(
    name: str,
    *,
    seeds: int = 10,
    adaptive: float = 0.0,
    storage: str | None = None,
    progress: bool = True,
    work: Work | None = None,
) -> Confirmed:
    """Measure a study's front and its likeliest neighbors again, with fresh seeds and on the reserve.

    What an earlier confirmation of the study has run is not run again, also after a kill.

    Args:
        name: the study.
        seeds: how many fresh seeds every setting that is kept has in the end; contested ones get up to twice as many.
        adaptive: for how many minutes attackers are tuned against each setting that stays; 0: they are not.
        storage: the ledger's database; None is the one that the environment names.
        progress: say on stderr how it goes.
        work: the trainable, where it is not the real one.

    Raises:
        StudyError: when there is no such study, none of its trials ended ok, it is measured in another way than studies
            are today, or another process runs it.
        UsageError: for fewer than 1 seed.
        KeyboardInterrupt: after Ctrl-C before anything runs, after a second one, and after SIGTERM; what was finished
            is kept.
    """
    known = Ledger.open(name, storage)  # what is not there gets no lease
    known.close()
    place, room = storage_at(storage), room_of(known.spec.resources)
    with answered(lambda: _left(name)), cluster.quiet_tune(), place.lease(name, room=room) as lease:
        ledger = Ledger.open(name, storage, lease)
        try:
            refuse_another(name, ledger.study.measure)
            run = _Run(ledger, seeds, work or Work.real(), lease, adaptive=adaptive, progress=progress)
            ended = run.run()
            if ended.answer is not None:
                ledger.confirmations.set_answer(ended.answer)
            return ended
        finally:
            ledger.close()


class _Run:
    """One run of a confirmation, the study's lease held."""

    def __init__(
        self, ledger: Ledger, seeds: int, work: Work, lease: Lease, *, adaptive: float, progress: bool
    ) -> None:
        self._ledger, self._work, self._adaptive, self._progress = ledger, work, adaptive, progress
        self._record = ledger.record()
        self._room = cluster.room_for(self._record.spec.resources, lease)
        self._contest = Contest.of(self._record, seeds)
        self._held = ledger.confirmations.records()
        self._floors = Floors.held(self._record, {p: r for p, r in self._held.items() if self._is_known(p)})
        self._failed: dict[int, str] = {}
        self._losses: Counter[int] = Counter()
        self._stopped = False

    def _is_known(self, place: Place) -> bool:
        return place[0] == UNDEFENDED or any(t.number == place[0] for t in self._record.trials)

    def run(self) -> Confirmed:
        """Run what is missing, phase after phase."""
        with answered(lambda: _left(self._record.name), stop=self._stop):
            while places := self._missing():
                self._say(f"phase {self._plan().phase + 1}: {len(places)} trainings")
                self._phase(places)
                if self._stopped:
                    owed = len(self._missing())
                    self._say(f"stopped; at least {owed} trainings are owed: 'tune-vfl confirm {self._record.name}'")
                    return Confirmed(None, self._failed, owed)
        return self._tuned(answer_of(self._contest, self._plan(), self._held, self._failed))

    def _tuned(self, plain: Confirmation) -> Confirmed:
        """Tune attackers against the settings that stay, where that was asked for, and answer with all there are."""
        kept, found = list(plain.by_number), self._ledger.confirmations.tuned()
        with answered(lambda: _left(self._record.name), stop=self._stop):
            for number, answer in self._tune(owed(kept, found, self._adaptive) if self._adaptive else []):
                if isinstance(answer, Died):
                    self._say(f"trial {number}: nobody was tuned against it, the worker process died")
                elif answer is not None:
                    found[number] = TunedAttack.model_validate(answer)
                    self._ledger.confirmations.keep_tuned(number, found[number])
        if self._stopped:
            return Confirmed(None, self._failed, len(owed(kept, found, self._adaptive)))
        return Confirmed(with_attackers(plain, found), self._failed)

    def _tune(self, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        if not numbers:
            return
        from trainables.base import tuned

        cluster.connect()
        self._say(f"attackers are tuned against {len(numbers)} settings, {self._adaptive:g} minutes each")
        work = self._work.trainable, self._work.options
        yield from self._pool(tuned).run([(n, call_of(self._record, n, self._adaptive, work)) for n in numbers])

    def _plan(self) -> Plan:
        return self._contest.plan(self._held, self._failed)

    def _missing(self) -> list[Place]:
        return self._contest.missing(self._plan(), self._held, self._failed)

    def _stop(self) -> None:
        self._stopped = True
        self._say("stopping: what runs now is finished and kept; press Ctrl-C again to leave at once")

    def _say(self, text: str) -> None:
        if self._progress:
            sys.stderr.write(f"confirm {self._record.name}: {text}\n")

    def _phase(self, places: Sequence[Place]) -> None:
        cluster.connect()
        stacks = self._work.trainable.most_per_pack(self._record.cell) > 1
        jobs = cut(self._record, places, workers=min(self._room.packs(), len(places)), stacks=stacks)
        self._measure_floors(jobs)
        while jobs and not self._stopped:
            jobs = self._evaluate(jobs)

    def _pool(self, function: Any) -> Pool[Any]:
        return Pool(function, self._record.spec.resources, self._room.packs, lambda: self._stopped)

    def _measure_floors(self, jobs: Sequence[Job]) -> None:
        """Measure what attacks are compared with, where that is not known from earlier runs."""
        from trainables.base import referenced

        trainable, options = self._work.trainable, dict(self._work.options)
        owed = self._floors.owed(jobs)
        for _ in range(MAX_WORKER_LOSSES):
            calls = [(cell, (trainable, cell.model_dump_json(), options)) for cell in owed]
            owed = []
            for cell, answer in self._pool(referenced).run(calls):
                if isinstance(answer, Died):
                    owed.append(cell)
                else:
                    self._floors.learn(cell, answer)

    def _evaluate(self, jobs: Sequence[Job]) -> list[Job]:
        """Run jobs and keep what comes; return those to try again, whose worker died."""
        from trainables.base import evaluated

        again: list[Job] = []
        ready = [job for job in jobs if not self._floors.owed([job])]
        for job in jobs:
            if job not in ready:
                self._fail(job.numbers, "what its attacks are compared with could not be measured: workers died")
        for job, answer in self._pool(evaluated).run([(job, self._arguments(job)) for job in ready], _seconds_allowed):
            if isinstance(answer, Hung) and len(job.numbers) == 1:
                self._fail(job.numbers, f"{HUNG}, over trial_minutes = {job.cell.trial_minutes}")
            elif isinstance(answer, Died):
                again += self._lost(job)
            else:
                self._keep(job, answer)
        return again

    def _arguments(self, job: Job) -> tuple[Any, ...]:
        pack = {
            "cell": job.cell.model_dump_json(),
            "references": self._floors.of(job.cell).model_dump_json(),
            "params": [dict(p) for p in job.params],
            "options": dict(self._work.options),
        }
        return self._work.trainable, pack

    def _keep(self, job: Job, answer: Sequence[Any]) -> None:
        lower = self._floors.of(job.cell).r_lower
        for number, raw in zip(job.numbers, answer, strict=True):
            outcome = read_outcome(raw)
            if outcome.outcome in _TRY_AGAIN:
                self._fail((number,), outcome.reason)
                continue
            for seed, record in records_of(outcome, job.cell.seeds, lower).items():
                self._held[number, seed] = record
                self._ledger.confirmations.keep((number, seed), record)

    def _lost(self, job: Job) -> list[Job]:
        """Count a lost worker against every setting it had; return those that are tried again, each alone."""
        self._losses.update(job.numbers)
        spent = [n for n in job.numbers if self._losses[n] >= MAX_WORKER_LOSSES]
        self._fail(spent, f"its worker process died {MAX_WORKER_LOSSES} times")
        return [one for one in job.alone if one.numbers[0] not in spent]

    def _fail(self, numbers: Sequence[int], reason: str) -> None:
        for number in numbers:
            self._failed.setdefault(number, reason)
            what = "the undefended model" if number == UNDEFENDED else f"trial {number}"
            self._say(f"{what} could not be measured: {reason}")


def _left(name: str) -> str:
    return f"confirm {name}: left; what was finished is kept: 'tune-vfl confirm {name}' goes on"


def _seconds_allowed(job: Job) -> float | None:
    """Return how long a job may take: one that fails as one is tried again one by one. None where nobody can say.

    On a cluster that grows a job may wait for its machine for as long as it takes.
    """
    minutes, count = job.cell.trial_minutes, len(job.numbers)
    return None if minutes is None or cluster.grows() else minutes * 60 * (2 * count if count > 1 else 1)

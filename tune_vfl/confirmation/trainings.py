"""A confirmation's trainings in Ray workers, with retries; each result is stored once, on arrival."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tune_vfl.confirmation.jobs import Floors, cut
from tune_vfl.confirmation.pool import Died, Hung, Pool
from tune_vfl.driver.study_run import HUNG
from tune_vfl.driver.undefended import undefended
from tune_vfl.execution import ray_session as cluster
from tune_vfl.ledger.ledger import MAX_WORKER_LOSSES
from tune_vfl.outcome import read_outcome
from tune_vfl.records.confirmations import UNDEFENDED, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.confirmation.jobs import Job, Place
    from tune_vfl.confirmation.kept import Kept
    from tune_vfl.execution.capacity import Capacity
    from tune_vfl.execution.trainable_spec import TrainableSpec
    from tune_vfl.records.campaigns import CampaignRecord
    from tune_vfl.records.joint_confirmation import Setting

# Outcomes that are no property of the setting. They are not stored, so that the next confirmation retries.
_TRY_AGAIN = ("error", "oom", "timeout", "preempted")


class Trainings:
    """The runner of a confirmation's trainings.

    Args:
        campaign: the campaign of the settings.
        kept: the store of records.
        work: the trainable and its options.
        room: returns the limit of parallel jobs.
        stopped: checked before each job; once true, running jobs finish and no new one starts.
        say: a callback for messages on failed settings.

    Attributes:
        failed: the failed settings, with reasons.
    """

    def __init__(
        self,
        campaign: CampaignRecord,
        kept: Kept,
        work: TrainableSpec,
        room: Capacity,
        *,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._campaign, self._kept, self._work, self._room = campaign, kept, work, room
        self._stopped, self._say = stopped, say
        self._floors = Floors.held(campaign.studies, kept.records)
        self._stacks: dict[tuple[str, bool], bool] = {}
        self._losses: Counter[Setting] = Counter()
        self.failed: dict[Setting, str] = {}

    def run(self, places: Sequence[Place]) -> None:
        """Run trainings, after the attack floors that they need."""
        cluster.connect()
        workers = min(self._room.packs(), len(places))
        jobs = cut(self._campaign.studies, places, workers=workers, stacks=self._stack)
        self._measure_floors(jobs)
        while jobs and not self._stopped():
            jobs = self._evaluate(jobs)

    def pool(self, function: Any) -> Pool[Any]:
        """Return a pool for calls of one function."""
        return Pool(function, self._campaign.studies[0].spec.resources, self._room.packs, self._stopped)

    def called(self, setting: Setting) -> str:
        """Return a setting's name for messages."""
        study, number = setting
        one = len(self._campaign.studies) == 1
        if number != UNDEFENDED:
            return f"trial {number}" if one else f"trial {study}#{number}"
        return "the undefended model" if one else f"the undefended model of {study}"

    def _stack(self, setting: Setting) -> bool:
        """Whether networks of a study's trials, or of its undefended model, train in one pass; cached."""
        kind = setting[0], setting[1] == UNDEFENDED
        if kind not in self._stacks:
            cell = self._campaign.study(setting[0]).cell
            self._stacks[kind] = self._work.trainable.most_per_pack(undefended(cell) if kind[1] else cell) > 1
        return self._stacks[kind]

    def _measure_floors(self, jobs: Sequence[Job]) -> None:
        """Measure the attack floors that earlier runs have not measured."""
        from trainables.base import referenced

        trainable, options = self._work.trainable, dict(self._work.options)
        owed = self._floors.owed(jobs)
        for _ in range(MAX_WORKER_LOSSES):
            calls = [(cell, (trainable, cell.model_dump_json(), options)) for cell in owed]
            owed = []
            for cell, answer in self.pool(referenced).run(calls):
                if isinstance(answer, Died):
                    owed.append(cell)
                else:
                    self._floors.learn(cell, answer)

    def _evaluate(self, jobs: Sequence[Job]) -> list[Job]:
        """Run jobs and store their results; return the jobs to retry after the death of a worker."""
        from trainables.base import evaluated

        again: list[Job] = []
        ready = [job for job in jobs if not self._floors.owed([job])]
        for job in jobs:
            if job not in ready:
                self._fail(job.settings, "what its attacks are compared with could not be measured: workers died")
        for job, answer in self.pool(evaluated).run([(job, self._arguments(job)) for job in ready], _seconds_allowed):
            if isinstance(answer, Hung) and len(job.settings) == 1:
                self._fail(job.settings, f"{HUNG}, over trial_minutes = {job.cell.trial_minutes}")
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
        for setting, raw in zip(job.settings, answer, strict=True):
            outcome = read_outcome(raw)
            if outcome.outcome in _TRY_AGAIN:
                self._fail((setting,), outcome.reason)
                continue
            for seed, record in records_of(outcome, job.cell.seeds, lower).items():
                self._kept.keep((*setting, seed), record)

    def _lost(self, job: Job) -> list[Job]:
        """Count a lost worker against each of its settings; return the retries, a job each."""
        self._losses.update(job.settings)
        spent = [s for s in job.settings if self._losses[s] >= MAX_WORKER_LOSSES]
        self._fail(spent, f"its worker process died {MAX_WORKER_LOSSES} times")
        return [one for one in job.alone if one.settings[0] not in spent]

    def _fail(self, settings: Sequence[Setting], reason: str) -> None:
        for setting in settings:
            self.failed.setdefault(setting, reason)
            self._say(f"{self.called(setting)} could not be measured: {reason}")


def _seconds_allowed(job: Job) -> float | None:
    """Return a job's timeout, which includes a retry of its settings one by one; None for no limit.

    On an autoscaling cluster a job may wait for a machine without limit.
    """
    minutes, count = job.cell.trial_minutes, len(job.numbers)
    return None if minutes is None or cluster.grows() else minutes * 60 * (2 * count if count > 1 else 1)

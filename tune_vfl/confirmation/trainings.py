"""A confirmation's packs: attack floors, trainings phase after phase, tuned attackers. Stores each answer at once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tune_vfl.confirmation.jobs import Floors, Job, Place, cut, without_seeds
from tune_vfl.confirmation.tuning import tuned_message
from tune_vfl.driver.undefended import undefended
from tune_vfl.execution.losses import Cause, Loss, Losses
from tune_vfl.execution.pack_sizes import seconds_of
from tune_vfl.outcome import MACHINE_FAILURES, TunedAttack, read_outcome
from tune_vfl.records.confirmations import UNDEFENDED, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.confirmation.kept import Kept
    from tune_vfl.execution.pack_searcher import WorkerPack
    from tune_vfl.execution.trainable_spec import TrainableSpec
    from tune_vfl.records.campaigns import CampaignRecord
    from tune_vfl.records.joint_confirmation import Setting
    from tune_vfl.spec.cell import Cell, References


@dataclass(frozen=True, eq=False)
class FloorPack:
    """The floors of a cell's attacks, by seed."""

    trainings: Trainings
    cell: Cell
    trials: ClassVar[int] = 0
    seconds_allowed: ClassVar[float | None] = None

    def message(self) -> dict[str, Any]:
        """Return the worker's configuration, see :mod:`trainables.base`."""
        data = self.trainings.data_of(self.cell)
        return {"asks": "floors", "cell": self.cell.model_dump_json(), "params": [], "data": data}

    def end(self, sent: Sequence[Any], /) -> None:
        """Store the floors."""
        self.trainings.add_floors(self, sent[0])

    def lose(self, cause: Cause, /) -> None:
        """Retry after a failed worker."""
        self.trainings.retry_floors(self, cause)


@dataclass(frozen=True, eq=False)
class JobPack:
    """The trainings of a job."""

    trainings: Trainings
    job: Job

    @property
    def trials(self) -> int:
        """The number of settings."""
        return len(self.job.numbers)

    @property
    def seconds_allowed(self) -> float | None:
        """The time limit in seconds, with a retry of each setting alone; None without a limit."""
        return seconds_of(self.trials, self.job.cell.trial_minutes)

    def message(self) -> dict[str, Any]:
        """Return the worker's configuration, see :mod:`trainables.base`."""
        return {
            "cell": self.job.cell.model_dump_json(),
            "references": self.trainings.floors_of(self.job).model_dump_json(),
            "params": [dict(p) for p in self.job.params],
            "data": self.trainings.data_of(self.job.cell),
        }

    def end(self, sent: Sequence[Any], /) -> None:
        """Store the outcomes."""
        self.trainings.add_outcomes(self, sent)

    def lose(self, cause: Cause, /) -> None:
        """Retry after a failed worker, or give up."""
        self.trainings.retry_job(self, cause)


@dataclass(frozen=True, eq=False)
class AttackerPack:
    """The search for the best attacker against one setting."""

    trainings: Trainings
    setting: Setting
    minutes: float
    trials: ClassVar[int] = 0
    seconds_allowed: ClassVar[float | None] = None

    def message(self) -> dict[str, Any]:
        """Return the worker's configuration, see :mod:`trainables.base`."""
        study, number = self.setting
        return tuned_message(self.trainings.campaign.study(study), number, self.minutes)

    def end(self, sent: Sequence[Any], /) -> None:
        """Store the attacker."""
        self.trainings.add_attacker(self, sent[0])

    def lose(self, cause: Cause, /) -> None:
        """Retry after a failed worker, or report that there is none."""
        self.trainings.retry_attacker(self, cause)


class Trainings:
    """The source of a confirmation's packs, see :class:`tune_vfl.execution.pack_searcher.PackSource`.

    Args:
        campaign: the campaign of the settings.
        kept: the store of records.
        work: the trainable.
        capacity: returns the limit of parallel packs.
        missing: returns the trainings of the current phase that have no record; none at the end.
        attackers: returns the settings that wait for a tuned attacker after the last phase, and the minutes for each.
        say: a callback for messages.

    Attributes:
        capacity: see above.
        failed: the failed settings, with reasons.
    """

    def __init__(
        self,
        campaign: CampaignRecord,
        kept: Kept,
        work: TrainableSpec,
        *,
        capacity: Callable[[], int],
        missing: Callable[[], list[Place]],
        attackers: Callable[[], tuple[Sequence[Setting], float]],
        say: Callable[[str], None],
    ) -> None:
        self.campaign = campaign
        self._kept, self._work, self.capacity = kept, work, capacity
        self._missing, self._attackers, self._say = missing, attackers, say
        self._floors = Floors.held(campaign.studies, kept.records)
        self._jobs: list[Job] = []  # of this phase, until their floors are known
        self._waiting: deque[WorkerPack] = deque()
        self._running: set[WorkerPack] = set()
        self._stacks: dict[tuple[str, bool], bool] = {}
        self._losses = Losses()
        self._floorless: dict[str, str] = {}  # why floors could not be measured, by their cell
        self._tuning = False
        self.failed: dict[Setting, str] = {}

    def next_pack(self, pack_id: str) -> WorkerPack | None:
        """Return the next pack; None while running ones must end first, and at the end."""
        while not self._waiting:
            if self._running or not self._advance():
                return None
        pack = self._waiting.popleft()
        self._running.add(pack)
        return pack

    def _advance(self) -> bool:
        """Queue what follows after all earlier packs; return whether there is anything."""
        if self._jobs:
            self._queue_jobs()
        elif places := self._missing():
            self._jobs = cut(
                self.campaign.studies, places, workers=min(self.capacity(), len(places)), stacks=self._stack
            )
            self._waiting.extend(FloorPack(self, cell) for cell in self._floors.owed(self._jobs))
        elif not self._tuning:
            self._tuning = True
            settings, minutes = self._attackers()
            self._waiting.extend(AttackerPack(self, setting, minutes) for setting in settings)
        else:
            return False
        return True

    def _queue_jobs(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            if owed := self._floors.owed([job]):
                why = self._floorless[without_seeds(owed[0])]
                self._fail(job.settings, f"what its attacks are compared with could not be measured: {why}")
            else:
                self._waiting.append(JobPack(self, job))

    def _called(self, setting: Setting) -> str:
        """Return a setting's name for messages."""
        study, number = setting
        one = len(self.campaign.studies) == 1
        if number != UNDEFENDED:
            return f"trial {number}" if one else f"trial {study}#{number}"
        return "the undefended model" if one else f"the undefended model of {study}"

    def data_of(self, cell: Cell) -> str:
        """Return the fingerprint of the data of the study that a cell belongs to."""
        return next(study.data for study in self.campaign.studies if study.cell.dataset == cell.dataset)

    def floors_of(self, job: Job) -> References:
        """Return the floors of a job's attacks."""
        return self._floors.of(job)

    def add_floors(self, pack: FloorPack, answer: References) -> None:
        """Store measured floors."""
        self._running.discard(pack)
        self._floors.learn(pack.cell, answer)

    def retry_floors(self, pack: FloorPack, cause: Cause) -> None:
        """Queue a floor pack again, or give it up."""
        self._running.discard(pack)
        outcome = self._losses.outcome(pack.cell.model_dump_json(), Loss(cause))
        if outcome.outcome == "preempted":
            self._waiting.append(pack)
        else:
            self._floorless[without_seeds(pack.cell)] = outcome.reason

    def add_outcomes(self, pack: JobPack, answer: Sequence[Any]) -> None:
        """Store a job's outcomes, a record for each setting and seed."""
        self._running.discard(pack)
        references = self.floors_of(pack.job)
        for setting, raw in zip(pack.job.settings, answer, strict=True):
            outcome = read_outcome(raw)
            if outcome.outcome in MACHINE_FAILURES:
                self._fail((setting,), outcome.reason)
                continue
            for seed, record in records_of(outcome, pack.job.cell.seeds, references).items():
                self._kept.keep((*setting, seed), record)

    def retry_job(self, pack: JobPack, cause: Cause) -> None:
        """Queue a job's settings again, or give them up."""
        self._running.discard(pack)
        job, loss = pack.job, Loss(cause, pack.trials, pack.job.cell.trial_minutes)
        again = []
        for setting in job.settings:
            # A machine may take several jobs of a setting with it at once: each of them is counted by itself.
            key = (setting, job.cell.seeds) if loss.counts_as == "node" else setting
            outcome = self._losses.outcome(key, loss)
            if outcome.outcome == "preempted":
                again.append(setting)
            else:
                self._fail([setting], outcome.reason)
        self._waiting.extend(JobPack(self, part) for part in job.parts(again, loss.together))

    def add_attacker(self, pack: AttackerPack, answer: dict[str, Any] | None) -> None:
        """Store a tuned attacker; None where no attack can be tuned."""
        self._running.discard(pack)
        if answer is not None:
            self._kept.keep_tuned(pack.setting, TunedAttack.model_validate(answer))

    def retry_attacker(self, pack: AttackerPack, cause: Cause) -> None:
        """Queue the search for an attacker again, or report that none was found."""
        self._running.discard(pack)
        outcome = self._losses.outcome(("attacker", pack.setting), Loss(cause))
        if outcome.outcome == "preempted":
            self._waiting.append(pack)
        else:
            self._say(f"{self._called(pack.setting)}: nobody was tuned against it: {outcome.reason}")

    def _stack(self, setting: Setting) -> bool:
        """Whether networks of a study's trials, or of its undefended model, train in one pass; cached."""
        kind = setting[0], setting[1] == UNDEFENDED
        if kind not in self._stacks:
            cell = self.campaign.study(setting[0]).cell
            self._stacks[kind] = self._work.trainable.most_per_pack(undefended(cell) if kind[1] else cell) > 1
        return self._stacks[kind]

    def _fail(self, settings: Sequence[Setting], reason: str) -> None:
        for setting in settings:
            self.failed.setdefault(setting, reason)
            self._say(f"{self._called(setting)} could not be measured: {reason}")

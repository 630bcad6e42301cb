"""A confirmation's jobs: attack floors, trainings phase after phase, tuned attackers. Stores each answer at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tune_vfl.confirmation.jobs import Floors, cut
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.confirmation.tuning import attacker_job, owed
from tune_vfl.driver.undefended import undefended
from tune_vfl.execution.jobs import Flight, Job, Queue
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.records.confirmations import UNDEFENDED, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.confirmation.contest import Contest
    from tune_vfl.confirmation.kept import Kept
    from tune_vfl.execution.trainable_spec import TrainableSpec
    from tune_vfl.ledger.confirmation_store import Place
    from tune_vfl.records.answers import SettingKey
    from tune_vfl.records.campaigns import CampaignRecord


class ConfirmationJobs(Queue):
    """A source of jobs, see :class:`tune_vfl.execution.jobs.JobSource`.

    Args:
        campaign: the campaign of the settings.
        kept: the store of records.
        work: the trainable.
        contests: which settings are measured, with how many seeds; one for each data set.
        adaptive: the minutes for which attackers are tuned against each setting that stays; 0 skips the tuning.
        say: a callback for messages.

    Attributes:
        kept: see above.
        failed: the failed settings, with reasons.
    """

    def __init__(
        self,
        campaign: CampaignRecord,
        kept: Kept,
        work: TrainableSpec,
        contests: Sequence[Contest],
        *,
        adaptive: float,
        say: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._campaign, self._work, self._contests = campaign, work, contests
        self._adaptive, self._say = adaptive, say
        self.kept = kept
        self.failed: dict[SettingKey, str] = {}
        self._floors = Floors(campaign.studies, kept.records)
        self._trainings: list[Job] = []  # of this phase, until their floors are known
        self._stacks: dict[tuple[str, bool], bool] = {}
        self._tuning = False

    def tables(self) -> list[ContestTable]:
        """Return what is known of each data set's settings."""
        return [ContestTable(contest, self.kept.records, self.failed) for contest in self._contests]

    def missing(self) -> list[Place]:
        """Return the trainings of the current phase that have no record; none at the end."""
        held, failed = self.kept.records, self.failed
        return [p for c in self._contests for p in c.missing(c.plan(held, failed), held, failed)]

    def attackers(self) -> list[SettingKey]:
        """Return the settings on the front that lack an attacker tuned for long enough."""
        if not self._adaptive:
            return []
        settings = [setting for table in self.tables() for setting in table.settings_kept]
        return owed(settings, self.kept.tuned, self._adaptive)

    @property
    def _phase(self) -> int:
        """The current phase, from 1: with several data sets the earliest."""
        plans = [contest.plan(self.kept.records, self.failed) for contest in self._contests]
        return 1 + min((plan.phase for plan in plans if not plan.done), default=plans[0].phase)

    def next_job(self, _job_id: str, flight: Flight, /) -> Job | None:
        """Return the next job; None while running ones must end first, and at the end."""
        while not self.waiting:
            if flight.running or not self._advance(flight.most):
                return None
        return self.waiting.popleft()

    def _advance(self, most: int) -> bool:
        """Queue what follows after all earlier jobs; return whether there is anything."""
        if self._trainings:
            trainings, self._trainings = self._trainings, []
            for job in trainings:
                self.waiting.append(replace(job, more={"references": self._floors.of(job).model_dump_json()}))
        elif places := self.missing():
            self._say(f"phase {self._phase}: {len(places)} trainings")
            workers = min(most, len(places))
            self._trainings = cut(self._campaign.studies, places, workers=workers, stacks=self._stack)
            self.waiting.extend(self._floors.owed(self._trainings))
        elif not self._tuning:
            self._tuning = True
            if settings := self.attackers():
                self._say(f"attackers are tuned against {len(settings)} settings, {self._adaptive:g} minutes each")
            study = self._campaign.study
            self.waiting.extend(attacker_job(study(name), number, self._adaptive) for name, number in settings)
        else:
            return False
        return True

    def keep(self, job: Job, key: Any, answer: Any, /) -> None:
        """Store a setting's records, a model's floors, or the attacker that was tuned against a setting."""
        if job.asks == "floors":
            self._floors.learn(job.cell, answer)
        elif job.asks == "attacker":
            if answer is not None:  # where any attack can be tuned
                self.kept.keep_tuned(key, TunedAttack.model_validate(answer))
        else:
            for seed, record in records_of(answer, job.cell.seeds, self._floors.of(job)).items():
                self.kept.keep((*key, seed), record)

    def give_up(self, job: Job, key: Any, outcome: Outcome, /) -> None:
        """Report that a setting, or the floors of a model, were not measured, or that no attacker was tuned."""
        if job.asks == "floors":
            self._fail_without_floors(key, outcome.reason)
        elif job.asks == "attacker":
            self._say(f"{self._called(key)}: nobody was tuned against it: {outcome.reason}")
        else:
            self._fail(key, outcome.reason)

    def _fail_without_floors(self, model: str, reason: str) -> None:
        """Leave out the trainings of this phase whose floors were not measured."""
        lacking = [
            job for job in self._trainings if any(model in floors.settings for floors in self._floors.owed([job]))
        ]
        self._trainings = [job for job in self._trainings if job not in lacking]
        for setting in [setting for job in lacking for setting in job.settings]:
            self._fail(setting, f"what its attacks are compared with could not be measured: {reason}")

    def _fail(self, setting: SettingKey, reason: str) -> None:
        self.failed.setdefault(setting, reason)
        self._say(f"{self._called(setting)} could not be measured: {reason}")

    def _called(self, setting: SettingKey) -> str:
        """Return a setting's name for messages."""
        study, number = setting
        one = len(self._campaign.studies) == 1
        if number != UNDEFENDED:
            return f"trial {number}" if one else f"trial {study}#{number}"
        return "the undefended model" if one else f"the undefended model of {study}"

    def _stack(self, setting: SettingKey) -> bool:
        """Whether networks of a study's trials, or of its undefended model, train in one pass; cached."""
        kind = setting[0], setting[1] == UNDEFENDED
        if kind not in self._stacks:
            cell = self._campaign.study(setting[0]).cell
            self._stacks[kind] = self._work.trainable.most_per_pack(undefended(cell) if kind[1] else cell) > 1
        return self._stacks[kind]

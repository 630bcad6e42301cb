"""The confirmation's driver: run the missing trainings, then compute and store the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_vfl.confirmation.answer import answer_of, joint_answer_of
from tune_vfl.confirmation.contest import contests_of
from tune_vfl.confirmation.jobs import Place
from tune_vfl.confirmation.kept import Kept
from tune_vfl.confirmation.table import Table
from tune_vfl.confirmation.trainings import Trainings
from tune_vfl.confirmation.tuning import owed, with_attackers
from tune_vfl.evaluation.code import code_of
from tune_vfl.execution import ray_session as cluster
from tune_vfl.execution.capacity import capacity_key
from tune_vfl.execution.sent_files import with_own_files
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.execution.tune_run import run_tune
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import answered
from tune_vfl.machine.streams import tell
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import Confirmation
from tune_vfl.records.joint_confirmation import JointConfirmation, Setting
from tune_vfl.records.measure import other_code, refuse_another


@dataclass(frozen=True)
class Confirmed:
    """The end of a confirmation.

    Attributes:
        answer: the result, joint for a campaign; None after an early stop.
        failed: the failed settings, with reasons.
        owed: after a stop, the least number of remaining trainings.
    """

    answer: Confirmation | JointConfirmation | None
    failed: Mapping[Setting, str] = field(default_factory=dict)
    owed: int = 0


def confirm(
    name: str,
    *,
    seeds: int = 10,
    adaptive: float = 0.0,
    storage: str | None = None,
    progress: bool = True,
    work: TrainableSpec | None = None,
) -> Confirmed:
    """Measure a front and its likeliest neighbors again, with fresh seeds and on reserved rows.

    A campaign's front is the joint one of all its studies on a data set. Trainings of an earlier confirmation are not
    repeated, also after a kill.

    Args:
        name: the study or the campaign.
        seeds: the number of fresh seeds for every setting on the final front; undecided ones get up to twice as many.
        adaptive: the minutes for which attackers are tuned against each setting on the front; 0 skips the tuning.
        storage: the ledger's database; None is the one that the environment names.
        progress: write progress to stderr.
        work: a replacement for the default trainable.

    Raises:
        StudyError: when there is no such name or no ok trial, when the study is of another measure than today's, or
            when another process holds the lease.
        UsageError: for fewer than 1 seed.
        KeyboardInterrupt: after Ctrl-C before the first training, after a second one, and after SIGTERM; finished
            trainings are stored.
    """
    stored = open_study(name, storage)  # a missing name must not get a lease
    parts = stored.parts()
    place, room = storage_at(storage), capacity_key(parts[0].spec.resources)
    with answered(lambda: _left(name)), cluster.quiet_tune(), place.lease(name, room=room) as lease:
        ledgers = Ledger.open_all([part.study.name for part in parts], place, lease)
        try:
            how: dict[str, Any] = {"seeds": seeds, "adaptive": adaptive, "progress": progress, "work": work}
            ended = Run(stored.record(), ledgers, lease, **how).run()
            if isinstance(ended.answer, JointConfirmation):
                next(iter(ledgers.values())).keep_joint_answer(ended.answer)
            return ended
        finally:
            for ledger in ledgers.values():
                ledger.close()


class Run:
    """One run of a confirmation.

    Args:
        campaign: its current record.
        ledgers: one for each of its studies, opened with the lease.
        lease: the campaign's acquired lease.
        seeds, adaptive, progress, work: see :func:`confirm`.

    Raises:
        StudyError: without an ok trial, or for a study of another measure than today's.
        UsageError: for fewer than 1 seed.
    """

    def __init__(
        self,
        campaign: CampaignRecord,
        ledgers: Mapping[str, Ledger],
        lease: Lease,
        *,
        seeds: int,
        adaptive: float,
        progress: bool,
        work: TrainableSpec | None,
    ) -> None:
        for study in campaign.studies:
            refuse_another(study.name, study.measure)
        self._campaign, self._ledgers = campaign, ledgers
        self._work, self._adaptive, self._progress = work or TrainableSpec.real(), adaptive, progress
        self._contests = contests_of(campaign, seeds)
        self._kept, self._stopped, self._lease = Kept(campaign, ledgers), False, lease
        self._resources = campaign.studies[0].spec.resources
        self._trainings = Trainings(
            campaign,
            self._kept,
            self._work,
            capacity=cluster.capacity_for(self._resources, lease).packs,
            missing=self._next_phase,
            attackers=self._next_attackers,
            say=self._say,
        )

    def run(self) -> Confirmed:
        """Run the missing trainings, phase after phase, and store each study's result in its ledger."""
        if self._missing() or self._attackers():
            self._fit()
        if places := self._missing() if self._stopped else ():
            self._say(f"stopped; at least {len(places)} trainings are owed: 'tune-vfl confirm {self._campaign.name}'")
            return Confirmed(None, self._trainings.failed, len(places))
        if self._stopped and (attackers := self._attackers()):
            return Confirmed(None, self._trainings.failed, len(attackers))
        return Confirmed(self._answer(self._tables()), self._trainings.failed)

    def _fit(self) -> None:
        """Run all packs."""
        from tune_vfl.execution.pack_searcher import PackSearcher

        for name, ledger in self._ledgers.items():
            if differing := other_code(ledger.code, code_of(ledger.cell, self._work.trainable)):
                self._say(f"{name} was searched with other code, so that numbers may differ: {', '.join(differing)}")
        cluster.connect()
        searcher = PackSearcher(self._trainings, self._trainings.capacity, self._work.options)

        def stop() -> None:
            self._stopped = True
            searcher.stop()
            self._say("stopping: what runs now is finished and kept; press Ctrl-C again to leave at once")

        with answered(lambda: _left(self._campaign.name), stop=stop) as signals:
            checks = (self._lease.check, signals.check)
            trainable = with_own_files(self._work.trainable, (s.cell.dataset for s in self._campaign.studies))
            run_tune(searcher, trainable, self._resources, checks, self._say)
        searcher.check_workers(self._campaign.name)

    def _tables(self) -> list[Table]:
        return [Table(contest, self._kept.records, self._trainings.failed) for contest in self._contests]

    def _answer(self, tables: Sequence[Table]) -> Confirmation | JointConfirmation:
        """Compute the result with all tuned attackers, and store each study's share of it."""
        parts = {s.name: answer_of(table, s.name) for table in tables for s in table.contest.studies}
        parts = {name: with_attackers(answer, self._kept.tuned) for name, answer in parts.items()}
        for name, answer in parts.items():
            self._ledgers[name].confirmations.set_answer(answer)
        if self._campaign.name in parts:
            return parts[self._campaign.name]
        return with_attackers(joint_answer_of(self._campaign, tables), self._kept.tuned)

    def _attackers(self) -> list[Setting]:
        """Return the settings on the front that lack an attacker tuned for long enough."""
        if not self._adaptive:
            return []
        kept = [setting for table in self._tables() for setting in table.settings_kept]
        return owed(kept, self._kept.tuned, self._adaptive)

    def _next_attackers(self) -> tuple[list[Setting], float]:
        if settings := self._attackers():
            self._say(f"attackers are tuned against {len(settings)} settings, {self._adaptive:g} minutes each")
        return settings, self._adaptive

    def _next_phase(self) -> list[Place]:
        if places := self._missing():
            self._say(f"phase {self._phase}: {len(places)} trainings")
        return places

    @property
    def _phase(self) -> int:
        """The current phase, from 1: with several data sets the earliest."""
        plans = [contest.plan(self._kept.records, self._trainings.failed) for contest in self._contests]
        return 1 + min((plan.phase for plan in plans if not plan.done), default=plans[0].phase)

    def _missing(self) -> list[Place]:
        held, failed = self._kept.records, self._trainings.failed
        return [p for c in self._contests for p in c.missing(c.plan(held, failed), held, failed)]

    def _say(self, text: str) -> None:
        if self._progress:
            tell(f"confirm {self._campaign.name}: {text}")


def _left(name: str) -> str:
    return f"confirm {name}: left; what was finished is kept: 'tune-vfl confirm {name}' goes on"

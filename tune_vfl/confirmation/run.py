"""The confirmation's driver: run the missing trainings, then compute and store the results."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tune_vfl.confirmation.answer import answer_of, joint_answer_of
from tune_vfl.confirmation.contest import contests_of
from tune_vfl.confirmation.kept import Kept
from tune_vfl.confirmation.pool import Died
from tune_vfl.confirmation.table import Table
from tune_vfl.confirmation.trainings import Trainings
from tune_vfl.confirmation.tuning import call_of, owed, with_attackers
from tune_vfl.execution import ray_session as cluster
from tune_vfl.execution.capacity import capacity_key
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import answered
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.joint_confirmation import JointConfirmation, Setting
from tune_vfl.records.measure import refuse_another

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tune_vfl.confirmation.jobs import Place
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.records.campaigns import CampaignRecord
    from tune_vfl.records.confirmations import Confirmation


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
        self._kept, self._stopped = Kept(campaign, ledgers), False
        room = cluster.capacity_for(campaign.studies[0].spec.resources, lease)
        self._trainings = Trainings(
            campaign, self._kept, self._work, room, stopped=lambda: self._stopped, say=self._say
        )

    def run(self) -> Confirmed:
        """Run the missing trainings, phase after phase, and store each study's result in its ledger."""
        with answered(lambda: _left(self._campaign.name), stop=self._stop):
            while places := self._missing():
                self._say(f"phase {self._phase}: {len(places)} trainings")
                self._trainings.run(places)
                if self._stopped:
                    owed = len(self._missing())
                    self._say(f"stopped; at least {owed} trainings are owed: 'tune-vfl confirm {self._campaign.name}'")
                    return Confirmed(None, self._trainings.failed, owed)
        tables = [Table(contest, self._kept.records, self._trainings.failed) for contest in self._contests]
        if owed_attackers := self._tune([p for table in tables for p in table.settings_kept]):
            return Confirmed(None, self._trainings.failed, owed_attackers)
        return Confirmed(self._answer(tables), self._trainings.failed)

    def _answer(self, tables: Sequence[Table]) -> Confirmation | JointConfirmation:
        """Compute the result with all tuned attackers, and store each study's share of it."""
        parts = {s.name: answer_of(table, s.name) for table in tables for s in table.contest.studies}
        parts = {name: with_attackers(answer, self._kept.tuned) for name, answer in parts.items()}
        for name, answer in parts.items():
            self._ledgers[name].confirmations.set_answer(answer)
        if self._campaign.name in parts:
            return parts[self._campaign.name]
        return with_attackers(joint_answer_of(self._campaign, tables), self._kept.tuned)

    def _tune(self, kept: Sequence[Setting]) -> int:
        """Tune attackers against the settings on the front, if requested; return the number left by a stop."""
        missing = owed(kept, self._kept.tuned, self._adaptive) if self._adaptive else []
        with answered(lambda: _left(self._campaign.name), stop=self._stop):
            for setting, answer in self._tuned(missing):
                if isinstance(answer, Died):
                    self._say(
                        f"{self._trainings.called(setting)}: nobody was tuned against it, the worker process died"
                    )
                elif answer is not None:
                    self._kept.keep_tuned(setting, TunedAttack.model_validate(answer))
        return len(owed(kept, self._kept.tuned, self._adaptive)) if self._stopped else 0

    def _tuned(self, settings: Sequence[Setting]) -> Iterator[tuple[Setting, Any]]:
        if not settings:
            return
        from trainables.base import tuned

        cluster.connect()
        self._say(f"attackers are tuned against {len(settings)} settings, {self._adaptive:g} minutes each")
        work = self._work.trainable, self._work.options
        calls = [((s, n), call_of(self._campaign.study(s), n, self._adaptive, work)) for s, n in settings]
        yield from self._trainings.pool(tuned).run(calls)

    @property
    def _phase(self) -> int:
        """The current phase, from 1: with several data sets the earliest."""
        plans = [contest.plan(self._kept.records, self._trainings.failed) for contest in self._contests]
        return 1 + min((plan.phase for plan in plans if not plan.done), default=plans[0].phase)

    def _missing(self) -> list[Place]:
        held, failed = self._kept.records, self._trainings.failed
        return [p for c in self._contests for p in c.missing(c.plan(held, failed), held, failed)]

    def _stop(self) -> None:
        self._stopped = True
        self._say("stopping: what runs now is finished and kept; press Ctrl-C again to leave at once")

    def _say(self, text: str) -> None:
        if self._progress:
            sys.stderr.write(f"confirm {self._campaign.name}: {text}\n")


def _left(name: str) -> str:
    return f"confirm {name}: left; what was finished is kept: 'tune-vfl confirm {name}' goes on"

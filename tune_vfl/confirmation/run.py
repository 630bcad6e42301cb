"""Run a confirmation: whatever the ledgers of its studies still lack of it."""

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
from tune_vfl.ledger.campaigns import CampaignRecord
from tune_vfl.ledger.joint import JointConfirmation, Setting
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.measure import refuse_another
from tune_vfl.ledger.reading import open_campaign, open_to_read
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import answered
from tune_vfl.outcome import TunedAttack
from tune_vfl.search import ray_session as cluster
from tune_vfl.search.room import room_of
from tune_vfl.search.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tune_vfl.confirmation.jobs import Place
    from tune_vfl.ledger.confirmations import Confirmation
    from tune_vfl.ledger.lease import Lease


@dataclass(frozen=True)
class Confirmed:
    """How a confirmation ended.

    Attributes:
        answer: what it found, of a campaign the joint answer; None when it was stopped before.
        failed: the settings that could not be measured, and why.
        owed: how many trainings a confirmation that was stopped had still to run, at least.
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
    work: Work | None = None,
) -> Confirmed:
    """Measure a front and its likeliest neighbors again, with fresh seeds and on the reserve.

    Of a campaign that is the joint front of all its studies on a data set. What an earlier confirmation has run is not
    run again, also after a kill.

    Args:
        name: the study or the campaign.
        seeds: how many fresh seeds every setting that is kept has in the end; contested ones get up to twice as many.
        adaptive: for how many minutes attackers are tuned against each setting that stays; 0: they are not.
        storage: the ledger's database; None is the one that the environment names.
        progress: say on stderr how it goes.
        work: the trainable, where it is not the real one.

    Raises:
        StudyError: when there is nothing of this name, none of its trials ended ok, it is measured in another way than
            studies are today, or another process runs it.
        UsageError: for fewer than 1 seed.
        KeyboardInterrupt: after Ctrl-C before anything runs, after a second one, and after SIGTERM; what was finished
            is kept.
    """
    held = open_campaign(name, storage)  # what is not there gets no lease
    parts = held.parts() if held is not None else [open_to_read(name, storage)]
    place, room = storage_at(storage), room_of(parts[0].spec.resources)
    with answered(lambda: _left(name)), cluster.quiet_tune(), place.lease(name, room=room) as lease:
        ledgers = Ledger.open_all([part.study.name for part in parts], place, lease)
        try:
            campaign = held.record() if held is not None else CampaignRecord.of(ledgers[name].record())
            ended = Run(campaign, ledgers, lease, seeds=seeds, adaptive=adaptive, progress=progress, work=work).run()
            if isinstance(ended.answer, JointConfirmation):
                next(iter(ledgers.values())).keep_joint_answer(ended.answer)
            return ended
        finally:
            for ledger in ledgers.values():
                ledger.close()


class Run:
    """One run of a confirmation; a lone study is confirmed as a campaign with one part.

    Args:
        campaign: as it stands.
        ledgers: of each of its studies, opened with the lease.
        lease: the campaign's, held.
        seeds, adaptive, progress, work: see :func:`confirm`.

    Raises:
        StudyError: when nothing of it ended ok, or it is measured in another way than studies are today.
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
        work: Work | None,
    ) -> None:
        for study in campaign.studies:
            refuse_another(study.name, study.measure)
        self._campaign, self._ledgers = campaign, ledgers
        self._work, self._adaptive, self._progress = work or Work.real(), adaptive, progress
        self._contests = contests_of(campaign, seeds)
        self._kept, self._stopped = Kept(campaign, ledgers), False
        room = cluster.room_for(campaign.studies[0].spec.resources, lease)
        self._trainings = Trainings(
            campaign, self._kept, self._work, room, stopped=lambda: self._stopped, say=self._say
        )

    def run(self) -> Confirmed:
        """Run what is missing, phase after phase, and keep each study's answer in its ledger."""
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
        """Answer with all the attackers that there are, and keep each study's part of it."""
        parts = {s.name: answer_of(table, s.name) for table in tables for s in table.contest.studies}
        parts = {name: with_attackers(answer, self._kept.tuned) for name, answer in parts.items()}
        for name, answer in parts.items():
            self._ledgers[name].confirmations.set_answer(answer)
        if self._campaign.lone:
            return parts[self._campaign.name]
        return with_attackers(joint_answer_of(self._campaign, tables), self._kept.tuned)

    def _tune(self, kept: Sequence[Setting]) -> int:
        """Tune attackers against the settings that stay, where that was asked for; return how many a stop has left."""
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
        """Which phase is run, from 1 on: with several data sets the earliest one."""
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

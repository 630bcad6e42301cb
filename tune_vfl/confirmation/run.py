"""The confirmation's driver: run the missing trainings, then compute and store the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tune_vfl.confirmation.answer import answer_of, joint_answer_of
from tune_vfl.confirmation.contest import contests_of
from tune_vfl.confirmation.kept import Kept
from tune_vfl.confirmation.source import ConfirmationJobs
from tune_vfl.confirmation.tuning import with_attackers
from tune_vfl.evaluation.code import code_of
from tune_vfl.execution.runner import Runner, leased
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.streams import tell
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import Confirmation
from tune_vfl.records.joint_confirmation import JointConfirmation, SettingKey
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
    failed: Mapping[SettingKey, str] = field(default_factory=dict)
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
    place, resources = storage_at(storage), parts[0].spec.resources
    with leased(name, place, resources, lambda: _left(name)) as lease:
        ledgers = Ledger.open_all([part.study.name for part in parts], place, lease)
        try:
            campaign, work = stored.record(), work or TrainableSpec.real()
            for study in campaign.studies:
                refuse_another(study.name, study.measure)

            def say(text: str) -> None:
                if progress:
                    tell(f"confirm {campaign.name}: {text}")

            source = ConfirmationJobs(
                campaign, Kept(campaign, ledgers), work, contests_of(campaign, seeds), adaptive=adaptive, say=say
            )
            datasets = [study.cell.dataset for study in campaign.studies]
            runner = Runner(campaign.name, lease, resources, work, datasets, lambda: _left(campaign.name), say)
            return _confirmed(source, runner, campaign, ledgers)
        finally:
            for ledger in ledgers.values():
                ledger.close()


def _confirmed(
    source: ConfirmationJobs, runner: Runner, campaign: CampaignRecord, ledgers: Mapping[str, Ledger]
) -> Confirmed:
    """Run the missing trainings, phase after phase, and store each study's result in its ledger."""
    stopped = False
    if source.missing() or source.attackers():
        for name, ledger in ledgers.items():
            if differing := other_code(ledger.code, code_of(ledger.cell, runner.work.trainable)):
                runner.say(f"{name} was searched with other code, so that numbers may differ: {', '.join(differing)}")
        stopped = runner.run(source)
    if stopped and (places := source.missing()):
        runner.say(f"stopped; at least {len(places)} trainings are owed: 'tune-vfl confirm {campaign.name}'")
        return Confirmed(None, source.failed, len(places))
    if stopped and (attackers := source.attackers()):
        return Confirmed(None, source.failed, len(attackers))
    return Confirmed(_answer(source, campaign, ledgers), source.failed)


def _answer(
    source: ConfirmationJobs, campaign: CampaignRecord, ledgers: Mapping[str, Ledger]
) -> Confirmation | JointConfirmation:
    """Compute the result with all tuned attackers, and store it with each study's share of it."""
    tables, tuned = source.tables(), source.kept.tuned
    parts = {s.name: with_attackers(answer_of(table, s.name), tuned) for table in tables for s in table.contest.studies}
    for name, answer in parts.items():
        ledgers[name].confirmations.set_answer(answer)
    if campaign.name in parts:
        return parts[campaign.name]
    joint = with_attackers(joint_answer_of(campaign, tables), tuned)
    next(iter(ledgers.values())).keep_joint_answer(joint)
    return joint


def _left(name: str) -> str:
    return f"confirm {name}: left; what was finished is kept: 'tune-vfl confirm {name}' goes on"

"""The confirmation's driver: run the missing trainings, then compute and store the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tune_vfl.confirmation.answer import answer_of
from tune_vfl.confirmation.contest import contests_of
from tune_vfl.confirmation.kept import Kept
from tune_vfl.confirmation.source import ConfirmationJobs
from tune_vfl.confirmation.tuning import with_attackers
from tune_vfl.evaluation.code import code_of
from tune_vfl.execution.runner import Runner, leased
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.reading import open_study
from tune_vfl.machine.streams import tell
from tune_vfl.records.answers import Confirmation, SettingKey
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.measure import other_code, refuse_another


@dataclass(frozen=True)
class Confirmed:
    """The end of a confirmation.

    Attributes:
        answer: the result, joint for a campaign; None after an early stop.
        failed: the failed settings, with reasons.
        owed: after a stop, the least number of remaining trainings.
    """

    answer: Confirmation | None
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
    place, resources = stored.place, stored.parts()[0].spec.resources
    with leased(name, place, resources, lambda: _left(name)) as lease:
        campaign, work = stored.record(), work or TrainableSpec.real()
        for study in campaign.studies:
            refuse_another(study.name, study.measure)

        def say(text: str) -> None:
            if progress:
                tell(f"confirm {campaign.name}: {text}")

        kept = Kept(campaign, Confirmations(place, lease))
        source = ConfirmationJobs(campaign, kept, work, contests_of(campaign, seeds), adaptive=adaptive, say=say)
        stopped = False
        if source.missing() or source.attackers():
            for part in stored.parts():
                if differing := other_code(part.code, code_of(part.cell, work.trainable)):
                    differ = ", ".join(differing)
                    say(f"{part.study.name} was searched with other code, so that numbers may differ: {differ}")
            datasets = [study.cell.dataset for study in campaign.studies]
            stopped = Runner(campaign.name, lease, resources, work, datasets, lambda: _left(name), say).run(source)
        if stopped and (places := source.missing()):
            say(f"stopped; at least {len(places)} trainings are owed: 'tune-vfl confirm {campaign.name}'")
            return Confirmed(None, source.failed, len(places))
        if stopped and (attackers := source.attackers()):
            return Confirmed(None, source.failed, len(attackers))
        return Confirmed(_answer(source, campaign), source.failed)


def _answer(source: ConfirmationJobs, campaign: CampaignRecord) -> Confirmation:
    """Compute the result with all tuned attackers, and store it with each study's share of it."""
    tables, tuned, store = source.tables(), source.kept.tuned, source.kept.store
    parts = {s.name: with_attackers(answer_of(s, [table]), tuned) for table in tables for s in table.contest.studies}
    for answer in parts.values():
        store.set_answer(answer)
    if campaign.name in parts:
        return parts[campaign.name]
    joint = with_attackers(answer_of(campaign, tables), tuned)
    store.set_answer(joint)
    return joint


def _left(name: str) -> str:
    return f"confirm {name}: left; what was finished is kept: 'tune-vfl confirm {name}' goes on"

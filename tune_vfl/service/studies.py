"""Read-only access to studies and campaigns by name, which never creates a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.campaign.campaign import Campaign, named
from tune_vfl.campaign.study import Study
from tune_vfl.errors import StudyError, UnknownNameError
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.secrets import hide_password
from tune_vfl.records.campaigns import CampaignRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.records.campaigns import PlannedCampaign
    from tune_vfl.records.studies import StudyRecord


def ledger_exists(storage: str | None = None) -> bool:
    """Return whether there is a ledger to read.

    Raises:
        UnreachableError: when its database does not answer.
    """
    return storage_at(storage).exists()


def open_study(name: str, storage: str | None = None) -> Study:
    """Open a study that exists.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when there is none of this name.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    return Study(name, storage)


def open_named(name: str, storage: str | None = None) -> Study | Campaign:
    """Open a study or a campaign that exists; arguments and errors are those of :func:`open_study`."""
    refuse_no_ledger(name, storage)
    return named(name, storage)


def campaign_record(name: str, storage: str | None = None) -> CampaignRecord:
    """Return a campaign, or a single study as one; errors are those of :func:`open_study`."""
    return CampaignRecord.of(open_named(name, storage).record())


def records_of(name: str, storage: str | None = None) -> tuple[StudyRecord, ...]:
    """Return the studies of a campaign, or the one study of this name; errors are those of :func:`open_study`."""
    return campaign_record(name, storage).studies


def refuse_no_ledger(name: str, storage: str | None = None) -> None:
    """Raise where there is no ledger.

    Raises:
        StudyError: with the address of the missing ledger.
        UnreachableError: when the ledger does not answer.
    """
    if not ledger_exists(storage):
        url = hide_password(storage_at(storage).url)
        raise StudyError(
            f"no study {name!r}: there is no ledger at {url} yet; a search makes it, or set TUNE_VFL_HOME or "
            "TUNE_VFL_STORAGE"
        )


def all_studies(storage: str | None = None) -> list[Study]:
    """Return every study of a ledger, by name; none where there is no ledger."""
    from tune_vfl.ledger.reading import study_names

    return [open_study(name, storage) for name in study_names(storage)] if ledger_exists(storage) else []


def everything(storage: str | None = None) -> list[str]:
    """Return the names of all campaigns and single studies of a ledger, sorted."""
    found = {study.campaign or study.name for study in all_studies(storage)}
    return sorted(found)


def known_attack(records: Sequence[StudyRecord], attack: str) -> str:
    """Return the attack's name.

    Raises:
        UnknownNameError: when none of the studies ran it; the message lists the attacks that they ran.
    """
    known = list(dict.fromkeys(a.name for record in records for a in record.cell.attacks))
    if attack not in known:
        raise UnknownNameError(f"attack of {records[0].name if len(records) == 1 else 'these studies'}", attack, known)
    return attack


def status_of(found: Study | Campaign) -> tuple[dict[str, Any], int]:
    """Return the summary of a study or a campaign with the remaining time and number of trials."""
    if isinstance(found, Campaign):
        whole = found.record()
        summary = found.summary(whole)
    else:
        study = found.record()
        whole, summary = CampaignRecord.of(study), found.summary(study)
    eta, late = eta_seconds(whole.studies), found.overdue()
    if eta is not None:
        summary["eta_seconds"] = eta
    if late:
        summary["overdue"] = late
    return summary, whole.owed


def finished(plan: PlannedCampaign, storage: str | None = None) -> bool:
    """Return whether all studies of a plan exist and are complete, by the plan's number of trials."""
    from tune_vfl.ledger.reading import study_names

    if not ledger_exists(storage) or not {s.name for s in plan.studies} <= set(study_names(storage)):
        return False
    records = [open_study(s.name, storage).record() for s in plan.studies]
    return all(_owes_nothing(r, s.spec.budget.trials) for r, s in zip(records, plan.studies, strict=True))


def _owes_nothing(record: StudyRecord, trials: int) -> bool:
    enough = trials <= max(record.spec.budget.trials, len(record.counted))
    return enough and record.baseline is not None and not record.waiting and not record.running


def eta_seconds(records: Sequence[StudyRecord], last: int = 20) -> float | None:
    """Estimate the remaining seconds of running studies from the pace of their last trials.

    Args:
        records: the study, or all those of a campaign.
        last: how many finished trials the pace is taken from.

    Returns:
        Seconds; None without a running study, or with fewer than two finished trials.
    """
    ends = sorted(t.finished for record in records for t in record.counted)[-last:]
    if not any(record.running for record in records) or len(ends) < 2:
        return None
    pace = (ends[-1] - ends[0]).total_seconds() / (len(ends) - 1)
    return pace * sum(record.running + record.waiting for record in records)

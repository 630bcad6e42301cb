"""Progress of studies and campaigns in a ledger."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from tune_vfl.analysis.summary import summary
from tune_vfl.ledger.damage import DamagedError
from tune_vfl.ledger.db_errors import LedgerTroubleError
from tune_vfl.ledger.lease import holders
from tune_vfl.ledger.making import refuse_taken
from tune_vfl.ledger.names import wholes_in
from tune_vfl.ledger.reading import open_study, study_names
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.pace import Pace
from tune_vfl.records.studies import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.reading import StoredStudy
    from tune_vfl.records.campaigns import CampaignRecord, PlannedCampaign
    from tune_vfl.records.studies import StudyRecord
    from tune_vfl.spec import StudySpec


def campaign_record(name: str, storage: str | None = None) -> CampaignRecord:
    """Return the record of a study or a campaign; errors are those of :func:`tune_vfl.ledger.reading.open_study`."""
    return open_study(name, storage).record()


def all_records(storage: str | None = None) -> tuple[list[StudyRecord], list[str]]:
    """Return every readable study of a ledger, by name, and a sentence on each damaged one."""
    records: list[StudyRecord] = []
    damaged = []
    for name in study_names(storage):
        try:
            records += open_study(name, storage).record().studies
        except (DamagedError, LedgerTroubleError) as error:
            if isinstance(error, LedgerTroubleError) and not error.damaged:
                raise
            damaged.append(f"study {name!r} cannot be read: {error}")
    return records, damaged


def held_names(storage: str | None = None) -> set[str]:
    """Return the names of the studies and campaigns that a process runs."""
    place = storage_at(storage)
    return {name for name, _ in holders(place)} if place.exists() else set()


def state_of(record: StudyRecord, *, running: bool) -> Literal["running", "stopped", "finished"]:
    """Return the state of a study: trials or its undefended model are owed where it is stopped.

    Args:
        record: the study's.
        running: whether a process runs it, or its campaign.
    """
    if running:
        return "running"
    return "finished" if _complete(record) else "stopped"


def everything(storage: str | None = None) -> list[str]:
    """Return the names of all campaigns and single studies of a ledger, sorted."""
    place = storage_at(storage)
    return place.read(wholes_in) if place.exists() else []


def status_of(stored: StoredStudy) -> dict[str, Any]:
    """Return the summary of a study or a campaign with its state, remaining seconds, and trials over their time.

    Where its process was not heard of for a while it says so, and promises no time.
    """
    holder, unheard = stored.holder()
    running = holder is not None
    whole = stored.record(running)
    states = {state_of(study, running=running) for study in whole.studies}
    told, late = summary(whole), stored.overdue() if running else {}
    eta = eta_seconds(whole.studies, holder.since) if holder and not unheard else None
    told["state"] = next(state for state in ("running", "stopped", "finished") if state in states)
    if eta is not None:
        told["eta_seconds"] = eta
    if unheard:
        told["unheard"] = unheard
    if late:
        told["overdue"] = late if "campaign" in told else late[whole.name]
    return told


def finished(plan: PlannedCampaign, storage: str | None = None) -> bool:
    """Return whether all studies of a plan exist and are complete, by the plan's number of trials."""
    if not storage_at(storage).exists() or not {s.name for s in plan.studies} <= set(study_names(storage)):
        return False
    return all(_owes_nothing(campaign_record(s.name, storage).studies[0], s.spec) for s in plan.studies)


def refuse_taken_names(plan: PlannedCampaign) -> None:
    """Refuse a plan whose names belong to other specs in the ledger that it names; nothing is created there.

    Raises:
        StudyError: with all that differs.
        UnreachableError: when the database does not answer.
    """
    place = storage_at(plan.studies[0].spec.storage)
    if place.exists():
        place.read(lambda connection: refuse_taken(connection, plan))


def _owes_nothing(record: StudyRecord, asked: StudySpec) -> bool:
    enough = asked.budget.trials <= max(record.spec.budget.trials, len(record.counted)) and not record.ended
    return (enough or record.stood_still(asked.stop.front)) and _complete(record)


def _complete(record: StudyRecord) -> bool:
    return record.baseline is not None and not record.waiting and not record.running


def eta_seconds(records: Sequence[StudyRecord], since: str) -> float | None:
    """Estimate the remaining seconds of a search, as its own bar does, see :class:`Pace`.

    Args:
        records: the study, or all those of a campaign.
        since: when its process took the lease, in the lease's words.

    Returns:
        Seconds; None before a trial that this process began has ended, or when nothing is left.
    """
    begun = datetime.strptime(since, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    pace, running, waiting = Pace(), sum(r.running for r in records), sum(r.waiting for r in records)
    for trial in in_order(t for record in records for t in record.trials if t.started >= begun):
        pace.add(trial, trial.finished.timestamp())
    left = pace.seconds_left(datetime.now(UTC).timestamp(), running, waiting)
    return left if running + waiting and math.isfinite(left) else None

"""Reading studies without leaving anything behind: looking at a ledger that is not there must not make one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, UnknownNameError
from tune_vfl.ledger.database import hide_password
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.study import Study

if TYPE_CHECKING:
    from tune_vfl.ledger.records import StudyRecord


def ledger_exists(storage: str | None = None) -> bool:
    """Say whether there is a ledger to read.

    Raises:
        UnreachableError: when its database does not answer.
    """
    return storage_at(storage).exists()


def open_study(name: str, storage: str | None = None) -> Study:
    """Open a study that exists.

    Args:
        name: its name.
        storage: the ledger, where it is not the one that the environment names.

    Raises:
        StudyError: when there is none of this name.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    return Study(name, storage)


def refuse_no_ledger(name: str, storage: str | None = None) -> None:
    """Refuse to look for a study where there is no ledger.

    Raises:
        StudyError: saying where it was looked for.
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
    from tune_vfl.ledger.ledger import study_names

    return [open_study(name, storage) for name in study_names(storage)] if ledger_exists(storage) else []


def known_attack(record: StudyRecord, attack: str) -> str:
    """Return the attack's name.

    Raises:
        UnknownNameError: when the study did not run it; names those that it ran.
    """
    known = [a.name for a in record.cell.attacks]
    if attack not in known:
        raise UnknownNameError(f"attack of study {record.name}", attack, known)
    return attack


def finished(name: str, storage: str | None = None, trials: int = 0) -> bool:
    """Say whether a study exists and owes nothing, even where so many finished trials are asked of it."""
    from tune_vfl.ledger.ledger import study_names

    if not ledger_exists(storage) or name not in study_names(storage):
        return False
    record = open_study(name, storage).record()
    enough = trials <= max(record.spec.budget.trials, len(record.counted))
    return enough and record.baseline is not None and not record.waiting and not record.running


def eta_seconds(record: StudyRecord, last: int = 20) -> float | None:
    """Estimate how long a study that is running still takes, from the pace of its last trials.

    Args:
        record: the study.
        last: how many finished trials the pace is taken from.

    Returns:
        Seconds; None when nothing is running, or fewer than two trials have finished.
    """
    ends = sorted(t.finished for t in record.counted)[-last:]
    if not record.running or len(ends) < 2:
        return None
    pace = (ends[-1] - ends[0]).total_seconds() / (len(ends) - 1)
    return pace * (record.running + record.waiting)

"""Putting right what a crash left behind: orphaned trials in the ledger, and projections that lag behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, TuneVflError, UnreachableError
from tune_vfl.ledger.ledger import Ledger, study_names
from tune_vfl.ledger.reading import open_to_read
from tune_vfl.ledger.storage import storage_at
from tune_vfl.service.checks import Check
from tune_vfl.service.studies import ledger_exists, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def repair(say: Callable[[str], None], storage: str | None = None) -> list[Check]:
    """Recover the orphans of every study and rebuild its runs in MLflow, a campaign's studies together.

    Args:
        say: is told what is being done.
        storage: the ledger, where it is not the one that the environment names.

    Returns:
        One check a campaign or lone study; one that another process runs is left alone.
    """
    try:
        if not ledger_exists(storage):
            return [Check("repair", "ok", "there is no ledger yet: nothing to repair")]
        names = study_names(storage)
    except UnreachableError as error:
        return [Check("repair", "unreachable", str(error), "mend the ledger first: everything is rebuilt from it")]
    checks = _mended_tracking()
    for name, studies in _by_experiment(names, storage).items():
        say(f"repairing {name} ...")
        checks.append(_repair_one(name, studies, storage))
    return checks or [Check("repair", "ok", "the ledger holds no study: nothing to repair")]


def _mended_tracking() -> list[Check]:
    from tune_vfl.machine.places import resolve_uri
    from tune_vfl.tracking.store import move_damaged_away

    moved = move_damaged_away(resolve_uri(None))
    return [Check("repair mlflow", "ok", f"it was damaged: moved to {moved} and built anew")] if moved else []


def _by_experiment(names: Sequence[str], storage: str | None) -> dict[str, list[str]]:
    """Return the studies by campaign; a lone one, and one that cannot be read, by its own name."""
    found: dict[str, list[str]] = {}
    for name in names:
        try:
            campaign = open_to_read(name, storage).study.campaign
        except TuneVflError:  # what is wrong with it is said when it is repaired
            campaign = ""
        found.setdefault(campaign or name, []).append(name)
    return found


def _repair_one(name: str, studies: Sequence[str], storage: str | None) -> Check:
    from tune_vfl.tracking.mlflow import Recorder

    title, recovered = f"repair {name}", 0
    try:
        with storage_at(storage).lease(name) as lease:
            for study in studies:
                ledger = Ledger.open(study, storage, lease)
                try:
                    recovered += len(ledger.recover())
                finally:
                    ledger.close()
            records = records_of(name, storage)
            Recorder(name, records[0].spec.tracking).sync(records)
    except StudyError as error:
        return Check(title, "ok", f"left alone: {error}")
    except UnreachableError as error:
        return Check(title, "unreachable", str(error), "start the tracking server and repair again")
    except TuneVflError as error:
        return Check(title, "finding", str(error), "look at the study by hand")
    waiting, trials = sum(r.waiting for r in records), sum(len(r.trials) for r in records)
    owed = f"; {waiting} trials are owed: tune-vfl resume {name}" if recovered and waiting else ""
    return Check(title, "ok", f"{recovered} orphaned trials recovered, MLflow holds {trials} trials{owed}")

"""The option ``doctor --repair``: recover orphaned trials after a crash, and rebuild MLflow runs from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, TuneVflError, UnreachableError
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.service.checks import Check
from tune_vfl.service.studies import campaign_record, everything, ledger_exists

if TYPE_CHECKING:
    from collections.abc import Callable


def repair(say: Callable[[str], None], storage: str | None = None) -> list[Check]:
    """Recover the orphans of every study and rebuild its runs in MLflow.

    Args:
        say: a callback for progress messages.
        storage: the ledger's database; None is the one that the environment names.

    Returns:
        One check per study; a study with a live lease holder is skipped.
    """
    try:
        if not ledger_exists(storage):
            return [Check("repair", "ok", "there is no ledger yet: nothing to repair")]
        names = everything(storage)
    except UnreachableError as error:
        return [Check("repair", "unreachable", str(error), "mend the ledger first: everything is rebuilt from it")]
    checks = _mended_tracking()
    for name in names:
        say(f"repairing {name} ...")
        checks.append(_repair_one(name, storage))
    return checks or [Check("repair", "ok", "the ledger holds no study: nothing to repair")]


def _mended_tracking() -> list[Check]:
    from tune_vfl.machine.places import resolve_uri
    from tune_vfl.tracking.store import move_damaged_away

    moved = move_damaged_away(resolve_uri(None))
    return [Check("repair mlflow", "ok", f"it was damaged: moved to {moved} and built anew")] if moved else []


def _repair_one(name: str, storage: str | None) -> Check:
    """Repair a single study, or a campaign with all of its studies."""
    from tune_vfl.tracking.mlflow import Recorder

    title = f"repair {name}"
    try:
        place = storage_at(storage)
        with place.lease(name) as lease:
            ledgers = Ledger.open_all([study.name for study in campaign_record(name, storage).studies], place, lease)
            try:
                recovered = sum(len(ledger.recover()) for ledger in ledgers.values())
                shown = campaign_record(name, storage)
                Recorder(name, shown.studies[0].spec.tracking).sync(shown)
            finally:
                for ledger in ledgers.values():
                    ledger.close()
    except StudyError as error:
        return Check(title, "ok", f"left alone: {error}")
    except UnreachableError as error:
        return Check(title, "unreachable", str(error), "mend what the message says and repair again")
    except TuneVflError as error:
        return Check(title, "finding", str(error), "look at the study by hand")
    waiting, trials = sum(r.waiting for r in shown.studies), sum(len(r.trials) for r in shown.studies)
    owed = f"; {waiting} trials are owed: tune-vfl resume {name}" if recovered and waiting else ""
    return Check(title, "ok", f"{recovered} orphaned trials recovered, MLflow holds {trials} trials{owed}")

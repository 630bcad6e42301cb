"""The option ``doctor --repair``: recover orphaned trials after a crash, and write MLflow runs anew from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, TuneVflError, UnreachableError, shortened
from tune_vfl.ledger.damage import DamagedError, find_damage, mend
from tune_vfl.ledger.db_errors import LedgerTroubleError
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.names import parts_of
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.service.checks import Health
from tune_vfl.service.studies import campaign_record, everything

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_SHOWN = 20
_NOWHERE = "what is lost is nowhere else, but in a backup"


def repair(say: Callable[[str], None], storage: str | None = None) -> list[Health]:
    """Recover the orphans of every study, and write its runs in MLflow anew.

    Args:
        say: a callback for progress messages.
        storage: the ledger's database; None is the one that the environment names.

    Returns:
        One check per study; a study with a live lease holder is skipped.
    """
    try:
        if not storage_at(storage).exists():
            return [Health("repair", "ok", "there is no ledger yet: nothing to repair")]
        names = everything(storage)
    except UnreachableError as error:
        return [Health("repair", "unreachable", str(error), "mend the ledger first: everything is rebuilt from it")]
    from tune_vfl.machine.places import resolve_uri
    from tune_vfl.tracking.store import move_damaged_away

    moved = move_damaged_away(resolve_uri(None))
    mended = Health("repair mlflow", "ok", f"it was damaged: moved to {moved} and built anew")
    checks = [mended] if moved else []
    for name in names:
        say(f"repairing {name} ...")
        checks.append(_repair_one(name, storage))
    return checks or [Health("repair", "ok", "the ledger holds no study: nothing to repair")]


def _repair_one(name: str, storage: str | None) -> Health:
    """Repair a single study, or a campaign with all of its studies."""
    from tune_vfl.tracking.mlflow import Recorder

    title, lost = f"repair {name}", list[str]()
    try:
        place = storage_at(storage)
        with place.lease(name) as lease:
            lost = place.write(lambda c: mend(c, find_damage(c, [name, *parts_of(c, name)])), lease)
            ledgers = [Ledger(place, part.study, lease) for part in open_study(name, storage).parts()]
            try:
                recovered = sum(len(ledger.recover()) for ledger in ledgers)
                shown = campaign_record(name, storage)
                Recorder(name, shown.studies[0].spec.tracking).rewrite(shown)
            finally:
                for ledger in ledgers:
                    ledger.close()
    except TuneVflError as error:
        return _failed(title, error, lost)
    waiting, trials = sum(r.waiting for r in shown.studies), sum(len(r.trials) for r in shown.studies)
    owed = f"; {waiting} trials are owed: tune-vfl resume {name}" if (recovered or lost) and waiting else ""
    done = f"{recovered} orphaned trials recovered, MLflow holds {trials} trials{owed}"
    if lost:
        return Health(title, "finding", f"{shortened(lost, _SHOWN, '; ')}; {done}", _NOWHERE)
    return Health(title, "ok", done)


def _failed(title: str, error: TuneVflError, lost: Sequence[str]) -> Health:
    if isinstance(error, StudyError):
        return Health(title, "ok", f"left alone: {error}")
    if isinstance(error, DamagedError):
        return Health(title, "finding", shortened(lost, _SHOWN, "; ") or str(error), _NOWHERE)
    if isinstance(error, LedgerTroubleError) and error.damaged:
        return Health(title, "finding", f"cannot be read: {error}", _NOWHERE)
    if isinstance(error, UnreachableError):
        return Health(title, "unreachable", str(error), "mend what the message says and repair again")
    return Health(title, "finding", str(error), "look at the study by hand")

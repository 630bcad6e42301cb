"""The ledger check of ``tune-vfl doctor``, for sqlite files and database servers."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from tune_vfl.errors import TuneVflError, UnreachableError
from tune_vfl.ledger.damage import find_damage, listed
from tune_vfl.ledger.lease import holders
from tune_vfl.ledger.schema import SCHEMA
from tune_vfl.ledger.storage import ONE_MACHINE, SqliteFile, storage_at
from tune_vfl.machine.presence import is_file
from tune_vfl.service.checks import Health

if TYPE_CHECKING:
    from pathlib import Path

    from tune_vfl.ledger.database import LedgerStorage


def examine_ledger(storage: str | None = None) -> Health:
    """Check that the ledger opens and answers; report its schema, lease holders and a file's journal mode."""
    try:
        place = storage_at(storage)
        if isinstance(place, SqliteFile):
            if not is_file(place.path):
                return Health("ledger", "ok", f"{place.shown}: not made yet; the first search makes it")
            broken = _broken_file(place.path)
            if broken is not None:
                return broken
        return _of_answer(place)
    except UnreachableError as error:
        return Health("ledger", "unreachable", str(error), "start the server, or mend what the message says")
    except TuneVflError as error:
        return Health("ledger", "finding", str(error), "do what the message says")


def migrate(storage: str | None = None) -> Health:
    """Bring a ledger of an earlier release to this program's schema."""
    place = storage_at(storage)
    try:
        before = place.migrate()
    except UnreachableError as error:
        return Health("migrate", "unreachable", str(error), "start the server, or mend what the message says")
    except TuneVflError as error:
        return Health("migrate", "finding", str(error), "nothing was changed")
    done = {0: "there is no ledger yet: nothing to bring up", SCHEMA: f"schema {SCHEMA} already"}
    return Health("migrate", "ok", f"{place.shown}: {done.get(before, f'from schema {before} to {SCHEMA}')}")


def _broken_file(path: Path) -> Health | None:
    advice = (
        f"restore {path} from a backup, or pack the studies that can still be read and move it away to start anew; "
        "nothing else holds the results"
    )
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)
        try:
            mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
            states = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        return Health("ledger", "finding", f"{path}: {error}", advice)
    if states != ["ok"]:
        return Health("ledger", "finding", f"{path}: {'; '.join(states)}", advice)
    if mode != "wal":
        return Health(
            "ledger", "finding", f"{path}: journal mode {mode}, not wal", "any search turns write-ahead logging on"
        )
    return None


def _of_answer(place: LedgerStorage) -> Health:
    if not place.exists():
        return Health("ledger", "ok", f"{place.shown}: answers, no ledger in it yet; the first search makes it")
    studies = place.count()
    damaged = place.read(find_damage)
    if damaged:
        detail = f"{place.shown}: {studies} studies, {len(damaged)} damaged values: {listed(damaged)}"
        return Health(
            "ledger", "finding", detail, "restore a backup; or doctor --repair says what is lost, and frees it"
        )
    running = [f"{study} by {holder}" for study, holder in holders(place)]
    kind = "write-ahead log on" if isinstance(place, SqliteFile) else "answers"
    detail = f"{place.shown}: {studies} studies, {kind}, schema {SCHEMA}"
    if running:
        detail += f"; running: {', '.join(running)}"
    if isinstance(place, SqliteFile) and (network := place.network):
        return Health("ledger", "finding", f"{detail}; it lies on {network}", ONE_MACHINE)
    return Health("ledger", "ok", detail)

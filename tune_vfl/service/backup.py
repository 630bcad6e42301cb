"""``tune-vfl study backup``: a copy of the whole ledger, also while searches write it."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, UsageError
from tune_vfl.ledger.db_errors import translated
from tune_vfl.ledger.schema import SCHEMA, new_identity
from tune_vfl.ledger.storage import SqliteFile, storage_at
from tune_vfl.machine.files import written_out

if TYPE_CHECKING:
    from pathlib import Path


def back_up(file: Path, storage: str | None = None) -> int:
    """Copy a ledger's sqlite file, of an earlier release too, into a new file, readable by this user alone.

    The copy is the state at one moment: no transaction is half in it, and nobody waits for it. It is a ledger of its
    own, with another identity: what belongs to a study that it lacks is not its to remove.

    Args:
        file: the path of the new file.
        storage: the ledger's database; None is the one that the environment names.

    Returns:
        The number of studies in the copy.

    Raises:
        UsageError: when the file exists, or the ledger is on a server.
        StudyError: when there is no ledger.
        UnreachableError: when the ledger cannot be read, or is damaged.
        UnwritableError: when the file cannot be written; nothing is left behind then.
    """
    place = storage_at(storage)
    if not isinstance(place, SqliteFile):
        raise UsageError(
            f"the ledger {place.shown} is on a server, which backs up its own databases: "
            f"pg_dump --format=custom --file={file} '{place.shown}', and pg_restore brings it back"
        )
    if file.exists():
        raise UsageError(f"{file} is there already: name a file that is not")
    version = place.version()
    if not version:
        raise StudyError(f"there is no ledger at {place.shown} yet: nothing to back up")
    with written_out(file, mode=0o600) as draft:
        return _copy(place, draft, version)


def _copy(place: SqliteFile, draft: Path, version: int) -> int:
    with (
        translated(place.shown),
        closing(sqlite3.connect(f"{place.path.absolute().as_uri()}?mode=rw", uri=True)) as source,
        closing(sqlite3.connect(draft)) as target,
    ):
        try:
            source.backup(target)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:  # the copy's disk: the ledger is only read
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
        (state,) = target.execute("PRAGMA integrity_check").fetchone()
        if state != "ok":
            raise StudyError(
                f"the ledger {place.shown} is damaged ({state}): nothing was written; 'tune-vfl doctor' says more"
            )
        with target:
            target.execute("DELETE FROM leases")  # who runs a study now runs it in the file that was copied
            if version == SCHEMA:
                target.execute("UPDATE tune_vfl_ledger SET identity = ?", (new_identity(),))
        (studies,) = target.execute("SELECT count(*) FROM studies").fetchone()
        return int(studies)

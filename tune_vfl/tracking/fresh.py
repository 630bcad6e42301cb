"""MLflow's database without anything in it, made by its own migrations once a machine, then copied.

Its forty migrations take .7 seconds of a core, and every home has a database of its own.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from tune_vfl.errors import UnwritableError
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import user_cache

if TYPE_CHECKING:
    from pathlib import Path


def make_fresh(path: Path) -> None:
    """Make a database where there is none yet; not in one piece: another process may see it half made."""
    import mlflow

    kept = user_cache() / "mlflow" / f"{mlflow.__version__}.db"
    with suppress(OSError, sqlite3.Error):
        shutil.copyfile(kept, path)
        if _is_whole(path):
            return
    path.unlink(missing_ok=True)
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments(max_results=1)
    _settle(path)
    with suppress(OSError, UnwritableError), written_whole(kept) as draft:
        shutil.copyfile(path, draft)


def _is_whole(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as connection:
        return bool(connection.execute("PRAGMA quick_check").fetchone()[0] == "ok")


def _settle(database: Path) -> None:
    """Leave no row that says where the database was made, and prefer a write-ahead log.

    With it readers (the UI) do not block the writer, which waits for the disk half as often. MLflow makes its default
    experiment anew where it finds none.
    """
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM experiments")
        connection.commit()
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

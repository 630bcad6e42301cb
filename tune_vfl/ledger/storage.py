"""Where the ledger lives, how its database is opened, and who may write to a study."""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tune_vfl.errors import StudyError, UnreachableError
from tune_vfl.machine.places import home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optuna.storages import RDBStorage

SQLITE = "sqlite:///"
# How sqlite says that a file is no database, or not a whole one.
DAMAGED = ("file is not a database", "disk image is malformed")


def ledger_url(storage: str | None = None) -> str:
    """Return the database URL of a spec's ``storage``: its own, else ``ledger.db`` under the home folder.

    A path without a scheme is a sqlite file.
    """
    if storage is None:
        return f"{SQLITE}{home() / 'ledger.db'}"
    return storage if "://" in storage else f"{SQLITE}{Path(storage).absolute()}"


def open_storage(url: str) -> RDBStorage:
    """Open a database, its tables made first and under a lock: a schema that is half made survives no crash.

    Raises:
        UnreachableError: when the database does not answer.
    """
    import optuna
    import sqlalchemy.exc
    from optuna.storages import RDBStorage

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    try:
        if not url.startswith(SQLITE):
            return RDBStorage(_with_driver(url), engine_kwargs={"pool_pre_ping": True})
        path = Path(url.removeprefix(SQLITE))
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=60):
            return _open_sqlite(url, path)
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error, OSError) as error:
        raise UnreachableError(
            f"the ledger {hide_password(url)} cannot be opened: {error}; {_advice(error)}"
        ) from error


def _advice(error: Exception) -> str:
    if any(mark in str(error) for mark in DAMAGED):
        return "the file is damaged: restore it from a backup, or move it away to start anew"
    return "check that the database runs, or that the folder can be written (TUNE_VFL_HOME names it)"


def hide_password(url: str) -> str:
    """Return a database URL that may be shown."""
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}"


def _with_driver(url: str) -> str:
    # psycopg 3 is what the package depends on; the bare scheme would ask for psycopg2.
    return (
        "postgresql+psycopg://" + url.partition("://")[2] if url.startswith(("postgresql://", "postgres://")) else url
    )


def _open_sqlite(url: str, path: Path) -> RDBStorage:
    import sqlalchemy
    from optuna.storages import RDBStorage

    with sqlite3.connect(path, timeout=60) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 60}})
    sqlalchemy.event.listen(storage.engine, "connect", _tune_connection)
    storage.engine.dispose()
    return storage


def _tune_connection(connection: Any, _record: Any) -> None:
    # With the write-ahead log a crash of the process loses nothing; only a power cut may lose the last commits.
    connection.execute("PRAGMA synchronous=NORMAL")


@contextmanager
def study_lock(url: str, name: str) -> Iterator[None]:
    """Hold the right to run a study: one driver at a time, given back when the process ends, however it ends.

    Raises:
        StudyError: when another process runs this study.
    """
    locked = _sqlite_lock(url, name) if url.startswith(SQLITE) else _server_lock(url, name)
    with locked:
        yield


def _refuse(name: str) -> StudyError:
    return StudyError(f"study {name!r} is being run by another process; wait for it, or stop it and resume")


@contextmanager
def _sqlite_lock(url: str, name: str) -> Iterator[None]:
    folder = Path(url.removeprefix(SQLITE)).parent / "locks"
    lock = FileLock(folder / f"{name}.lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise _refuse(name) from error
    except OSError as error:
        raise UnreachableError(
            f"{folder} cannot be written ({error.strerror or error}), so study {name!r} cannot be run; "
            "free or change the place that TUNE_VFL_HOME (or the spec's storage) names"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _server_lock(url: str, name: str) -> Iterator[None]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(_with_driver(url), isolation_level="AUTOCOMMIT")
    if engine.dialect.name != "postgresql":
        raise StudyError(f"storage {hide_password(url)}: expected a sqlite file or a postgresql:// URL")
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
    with engine.connect() as connection:
        # A session's advisory lock: the server drops it with the connection, so a dead driver holds nothing.
        if not connection.execute(sqlalchemy.text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
            raise _refuse(name)
        yield
    engine.dispose()

"""Where a ledger is held: a sqlite file or a database server, each with its way of being opened and locked."""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tune_vfl.errors import StudyError, UnreachableError
from tune_vfl.machine.places import home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from optuna.storages import BaseStorage, RDBStorage

SQLITE = "sqlite:///"
# How sqlite says that a file is no database, or not a whole one.
DAMAGED = ("file is not a database", "disk image is malformed")


class LedgerStorage(ABC):
    """The database of a ledger.

    Args:
        url: the database, as SQLAlchemy takes it.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def exists(self) -> bool:
        """Say whether there is a ledger to read, without making one."""

    @abstractmethod
    def lock(self, study: str) -> AbstractContextManager[None]:
        """Hold the right to run a study: one driver at a time, given back when the process ends, however it ends.

        Raises:
            StudyError: when another process runs this study.
        """

    @abstractmethod
    def _open(self) -> RDBStorage:
        """Open the database, its tables made first."""

    def open(self) -> BaseStorage:
        """Open the database, behind Optuna's cache of finished trials.

        Raises:
            UnreachableError: when it does not answer.
        """
        import optuna
        import sqlalchemy.exc
        from optuna.storages import get_storage

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        broken = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error, OSError)
        try:
            return get_storage(self._open())
        except broken as error:
            raise UnreachableError(
                f"the ledger {hide_password(self.url)} cannot be opened: {error}; {_advice(error)}"
            ) from error


class SqliteFile(LedgerStorage):
    """A sqlite file with a write-ahead log; its locks are files beside it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{SQLITE}{path}")
        self.path = path

    def exists(self) -> bool:
        """Say whether the file is there."""
        return self.path.is_file()

    def _open(self) -> RDBStorage:
        import sqlalchemy
        from optuna.storages import RDBStorage

        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Optuna makes the tables one by one: a second process must not meet a database with some of them.
        with FileLock(f"{self.path}.lock", timeout=60):
            with sqlite3.connect(self.path, timeout=60) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            connection.close()
            storage = RDBStorage(self.url, engine_kwargs={"connect_args": {"timeout": 60}})
            sqlalchemy.event.listen(storage.engine, "connect", _tune_connection)
            storage.engine.dispose()
        return storage

    @contextmanager
    def lock(self, study: str) -> Iterator[None]:
        """Hold the study's lock file; the system drops the lock with the process."""
        folder = self.path.parent / "locks"
        lock = FileLock(folder / f"{study}.lock", timeout=0)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise _in_use(study) from error
        except OSError as error:
            raise UnreachableError(
                f"{folder} cannot be written ({error.strerror or error}), so study {study!r} cannot be run; "
                "free or change the place that TUNE_VFL_HOME (or the spec's storage) names"
            ) from error
        try:
            yield
        finally:
            lock.release()


class DatabaseServer(LedgerStorage):
    """A database server, which is taken to hold a ledger; studies are locked on PostgreSQL only."""

    def exists(self) -> bool:
        """Say yes: only opening it would tell."""
        return True

    def _open(self) -> RDBStorage:
        from optuna.storages import RDBStorage

        return RDBStorage(self._with_driver, engine_kwargs={"pool_pre_ping": True})

    @contextmanager
    def lock(self, study: str) -> Iterator[None]:
        """Hold a session's advisory lock: the server drops it with the connection, so a dead driver holds nothing."""
        import sqlalchemy

        engine = sqlalchemy.create_engine(self._with_driver, isolation_level="AUTOCOMMIT")
        if engine.dialect.name != "postgresql":
            raise StudyError(f"storage {hide_password(self.url)}: expected a sqlite file or a postgresql:// URL")
        key = int.from_bytes(hashlib.blake2b(study.encode(), digest_size=8).digest(), "little", signed=True)
        with engine.connect() as connection:
            if not connection.execute(sqlalchemy.text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
                raise _in_use(study)
            yield
        engine.dispose()

    @property
    def _with_driver(self) -> str:
        # psycopg 3 is what the package depends on; the bare scheme would ask for psycopg2.
        scheme, _, rest = self.url.partition("://")
        return f"postgresql+psycopg://{rest}" if scheme in {"postgresql", "postgres"} else self.url


def storage_at(given: str | None = None) -> LedgerStorage:
    """Return the storage that a spec's ``storage`` names; None is :func:`home_file`.

    A path without a scheme is a sqlite file.
    """
    if given is None:
        return home_file()
    if given.startswith(SQLITE):
        return SqliteFile(Path(given.removeprefix(SQLITE)))
    return DatabaseServer(given) if "://" in given else SqliteFile(Path(given).absolute())


def home_file() -> SqliteFile:
    """Return the ledger that is used where nothing else is named: ``ledger.db`` under the home folder."""
    return SqliteFile(home() / "ledger.db")


def hide_password(url: str) -> str:
    """Return a database URL that may be shown."""
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}"


def _tune_connection(connection: Any, _record: Any) -> None:
    # With the write-ahead log a crash of the process loses nothing; only a power cut may lose the last commits.
    connection.execute("PRAGMA synchronous=NORMAL")


def _advice(error: Exception) -> str:
    if any(mark in str(error) for mark in DAMAGED):
        return "the file is damaged: restore it from a backup, or move it away to start anew"
    return "check that the database runs, or that the folder can be written (TUNE_VFL_HOME names it)"


def _in_use(study: str) -> StudyError:
    return StudyError(f"study {study!r} is being run by another process; wait for it, or stop it and resume")

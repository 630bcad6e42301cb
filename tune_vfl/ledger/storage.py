"""Where a ledger is held: a sqlite file or a PostgreSQL server, and which one is meant."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from tune_vfl.errors import UsageError
from tune_vfl.ledger.database import LedgerStorage, hide_password
from tune_vfl.ledger.lease import Clock
from tune_vfl.ledger.owner import boot_id
from tune_vfl.ledger.reader import FileReader
from tune_vfl.ledger.trouble import speak_plainly
from tune_vfl.machine.places import home
from tune_vfl.machine.secrets import from_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optuna.storages import RDBStorage
    from sqlalchemy import Connection, Engine

    from tune_vfl.ledger.reader import Reader

SQLITE = "sqlite:///"
# How sqlite says that a file is no database, or not a whole one.
DAMAGED = ("file is not a database", "disk image is malformed")
# Any number that no other program is likely to lock: "tune-vfl" in eight bytes.
_MAKING = int.from_bytes(b"tune-vfl", "big", signed=True)
# A server that is cut off must not hold a search for the hours that TCP would wait.
_CONNECTING = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 10, "tcp_user_timeout": 30_000}
# Nor may what the server still holds of a driver that was cut off keep others waiting.
_LIMITS = "SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '30s'"


class SqliteFile(LedgerStorage):
    """A sqlite file with a write-ahead log, used by the processes of one machine."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{SQLITE}{path}")
        self.path = path

    def exists(self) -> bool:
        """Say whether the file is there."""
        return self.path.is_file()

    def engine(self) -> Engine:
        """Return an engine that keeps no connection open."""
        import sqlalchemy

        return sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool, connect_args={"timeout": 60})

    def for_leases(self) -> Engine:
        """Return an engine whose transactions lock the file for writing from their start."""
        import sqlalchemy

        connecting = {"timeout": 60, "isolation_level": None}  # transactions begin when they are told to
        engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool, connect_args=connecting)
        sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        speak_plainly(engine, self.shown)
        return engine

    def clock(self, connection: Connection) -> Clock:
        """Return the seconds since this machine was started, which no setting of its clock changes.

        A write-ahead log works among the processes of one machine only, so that they all have this clock.
        """
        return Clock(boot_id(), time.monotonic())

    @contextmanager
    def _looking(self) -> Iterator[Reader]:
        with closing(sqlite3.connect(self.path, timeout=60)) as connection:
            yield FileReader(connection)

    @contextmanager
    def _making(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Optuna makes the tables one by one: a second process must not meet a database with some of them.
        with FileLock(f"{self.path}.lock", timeout=60):
            connection = sqlite3.connect(self.path, timeout=60)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            finally:
                connection.close()
            yield

    def _open(self, *, migrate: bool = False) -> RDBStorage:
        import sqlalchemy

        storage = _tables(self.url, {"connect_args": {"timeout": 60}}, migrate=migrate)
        sqlalchemy.event.listen(storage.engine, "connect", _tune_connection)
        storage.engine.dispose()
        return storage


class PostgresServer(LedgerStorage):
    """A database of a PostgreSQL server."""

    def exists(self) -> bool:
        """Ask the server whether the database holds a ledger."""
        return self.version() > 0

    def engine(self) -> Engine:
        """Return an engine that keeps no connection open."""
        return self._engine()

    def for_leases(self) -> Engine:
        """Return an engine whose transactions wait for each other where they lock a row."""
        import sqlalchemy

        engine = self._engine()
        sqlalchemy.event.listen(engine, "connect", _limit_connection)
        speak_plainly(engine, self.shown)
        return engine

    def clock(self, connection: Connection) -> Clock:
        """Return the server's own time, in seconds since 1970."""
        import sqlalchemy

        now = connection.execute(sqlalchemy.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
        return Clock("server", float(now))

    @contextmanager
    def _making(self) -> Iterator[None]:
        import sqlalchemy

        with self._engine(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": _MAKING})
            yield  # the server gives it back with the connection

    def _open(self, *, migrate: bool = False) -> RDBStorage:
        import sqlalchemy

        kwargs = {"pool_pre_ping": True, "connect_args": self._connecting}
        storage = _tables(self._with_driver, kwargs, migrate=migrate)
        sqlalchemy.event.listen(storage.engine, "connect", _limit_connection)
        storage.engine.dispose()
        return storage

    def _engine(self, **options: Any) -> Engine:
        import sqlalchemy

        try:
            return sqlalchemy.create_engine(
                self._with_driver, poolclass=sqlalchemy.NullPool, connect_args=self._connecting, **options
            )
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the ledger {self.shown}: PostgreSQL needs psycopg; python -m pip install 'tune-vfl[postgres]'"
            ) from error

    @property
    def _connecting(self) -> dict[str, Any]:
        return {key: value for key, value in _CONNECTING.items() if f"{key}=" not in self.url}

    @property
    def _with_driver(self) -> str:
        # psycopg 3 is what the extra installs; the bare scheme would ask for psycopg2.
        scheme, _, rest = self.url.partition("://")
        return f"postgresql+psycopg://{rest}" if scheme in {"postgresql", "postgres"} else self.url


def storage_at(given: str | None = None) -> LedgerStorage:
    """Return the ledger that ``--storage`` or a spec's ``storage`` names.

    Args:
        given: a path, ``sqlite:///PATH`` or ``postgresql://...``; None is what ``TUNE_VFL_STORAGE`` names, else
            ``ledger.db`` under the home folder. ``${env:NAME}`` in it stands for an environment variable.

    Raises:
        UsageError: for another kind of database, or a variable that is not set.
    """
    named = given or os.environ.get("TUNE_VFL_STORAGE")
    if not named:
        return SqliteFile(home() / "ledger.db")
    named = from_environment(named, "storage")
    scheme, mark, _ = named.partition("://")
    if not mark:
        return SqliteFile(Path(named).absolute())
    if named.startswith(SQLITE):
        return SqliteFile(Path(named.removeprefix(SQLITE)))
    if scheme.partition("+")[0] in {"postgresql", "postgres"}:
        return PostgresServer(named)
    raise UsageError(f"storage {hide_password(named)}: expected a path, sqlite:///PATH or postgresql://USER@HOST/NAME")


def _tables(url: str, engine: dict[str, Any], *, migrate: bool) -> RDBStorage:
    from optuna.storages import RDBStorage

    if migrate:
        older = RDBStorage(url, engine_kwargs=engine, skip_compatibility_check=True)
        older.upgrade()
        older.engine.dispose()
    return RDBStorage(url, engine_kwargs=engine)


def _tune_connection(connection: Any, _record: Any) -> None:
    # With the write-ahead log a crash of the process loses nothing; only a power cut may lose the last commits.
    connection.execute("PRAGMA synchronous=NORMAL")


def _limit_connection(connection: Any, _record: Any) -> None:
    connection.execute(_LIMITS)
    connection.commit()

"""The two kinds of database: a sqlite file and a PostgreSQL server, and the choice of one."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import OperationalError

from tune_vfl.errors import UnreachableError, UsageError
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.db_errors import LedgerGoneError, retry, translated
from tune_vfl.ledger.lease import Clock
from tune_vfl.machine.filesystems import network_file_system
from tune_vfl.machine.passwords import from_environment, hide_password, parts_of, usable
from tune_vfl.machine.places import home, sqlite_path, sqlite_uri
from tune_vfl.machine.presence import is_file
from tune_vfl.machine.process_identity import boot_id
from tune_vfl.machine.streams import tell

# How sqlite says that a file is no database, or not a whole one.
DAMAGED = ("file is not a database", "disk image is malformed")
ONE_MACHINE = (
    "sqlite's write-ahead log works among the processes of one machine only; while no other machine writes it, all is "
    "well; else name a local folder (TUNE_VFL_HOME) or a PostgreSQL server (TUNE_VFL_STORAGE)"
)
# Any number that no other program is likely to lock: "tune-vfl" in eight bytes.
_ONE_AT_A_TIME = int.from_bytes(b"tune-vfl", "big", signed=True)
# A server that is cut off must not hold a search for the hours that TCP would wait.
_CONNECTING = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 10, "tcp_user_timeout": 30_000}
# Nor may what the server still holds of a driver that was cut off keep others waiting.
_LIMITS = "SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '30s'"


# Python answers no signal while sqlite waits for a lock: one attempt is short, and a locked file is tried for a minute.
_ATTEMPT_SECONDS, _LOCKED_SECONDS = 1.0, 60.0


class SqliteFile(LedgerStorage):
    """A sqlite file with a write-ahead log, used by the processes of one machine."""

    def __init__(self, path: Path) -> None:
        super().__init__(sqlite_uri(path))
        self.path = path

    def _is_there(self) -> bool:
        """Return whether the file exists; raise :class:`UnreachableError` when that cannot be known."""
        return is_file(self.path)

    def clock(self, connection: Connection) -> Clock:
        """Return the seconds since this machine was started, which a change of its clock does not affect.

        A write-ahead log works among the processes of one machine only, so that they all have this clock.
        """
        return Clock(boot_id(), time.monotonic())

    def serialize(self, connection: Connection) -> None:
        """Do nothing: a transaction that writes has the file to itself."""

    @property
    def network(self) -> str | None:
        """The network file system that the file lies on, where a write-ahead log is not safe; None on a local one."""
        return network_file_system(self.path)

    def _prepare(self) -> None:
        if kind := self.network:
            _say_once(f"tune-vfl: the ledger {self.shown} lies on {kind}: {ONE_MACHINE}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # for its user alone, whatever the umask
        except OSError as error:
            raise UnreachableError(
                f"the ledger {self.shown} cannot be written ({error.strerror or error}); free or change the place "
                "that TUNE_VFL_HOME (or TUNE_VFL_STORAGE, --storage, the spec's storage) names"
            ) from error

        def connect() -> None:
            with translated(self.shown), self._writer.connect():
                pass

        retry(connect)  # sqlite does not wait where two turn the log on at once

    def _connecting(self) -> tuple[URL, dict[str, Any]]:
        def connect() -> sqlite3.Connection:
            # A file that is not there is not made. The driver begins no transaction by itself, so that one that will
            # write can lock the file when it begins.
            place = f"{self.path.absolute().as_uri()}?mode=rw"
            return sqlite3.connect(
                place, uri=True, timeout=_ATTEMPT_SECONDS, isolation_level=None, check_same_thread=False
            )

        return make_url(self.url), {"creator": connect}

    def _moments(self, *, writes: bool) -> Mapping[str, Callable[..., None]]:
        return {"connect": _log_ahead, "begin": self._begin_writing} if writes else {"begin": _begin_reading}

    def _begin_writing(self, connection: Connection) -> None:
        """Lock the file, and refuse one to which its path does not lead any more: nobody would find what is written."""
        _lock(connection)
        now = [_told_apart(path) for path in (self.path, self.path.with_name(f"{self.path.name}-wal"))]
        opened = connection.info.setdefault("files", now)
        if now[0] is None or any(was not in (None, held) for was, held in zip(opened, now, strict=True)):
            raise LedgerGoneError(self.shown, "the file was removed, moved or replaced while it was open")


class PostgresServer(LedgerStorage):
    """A database of a PostgreSQL server."""

    def _is_there(self) -> bool:
        """Return True: whether there is one only its answer tells."""
        return True

    def clock(self, connection: Connection) -> Clock:
        """Return the server's own time, in seconds since 1970."""
        now = sqlalchemy.extract("epoch", sqlalchemy.func.clock_timestamp())
        return Clock("server", float(connection.execute(sqlalchemy.select(now)).scalar_one()))

    def serialize(self, connection: Connection) -> None:
        """Take an advisory lock of the server, which ends with the transaction."""
        connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))

    def _prepare(self) -> None:
        """Nothing: the database is made by its owner."""

    def _connecting(self) -> tuple[URL, dict[str, Any]]:
        # psycopg 3 is what the extra installs; the bare scheme would ask for psycopg2.
        url = make_url(self.url).set(drivername="postgresql+psycopg")
        return url, {"connect_args": {key: value for key, value in _CONNECTING.items() if key not in url.query}}

    def _moments(self, *, writes: bool) -> Mapping[str, Callable[..., None]]:
        return {"connect": _limit_connection} if writes else {}


def storage_at(given: str | os.PathLike[str] | None = None) -> LedgerStorage:
    """Return the ledger that ``--storage`` or a spec's ``storage`` names.

    Args:
        given: a path, ``sqlite:///PATH`` or ``postgresql://...``; None is what ``TUNE_VFL_STORAGE`` names, else
            ``ledger.db`` under the home folder. ``${env:NAME}`` in a URL's password is an environment variable's value.

    Raises:
        UsageError: for another kind of database, a folder, a server that a study file names and that is not the user's
            own, or a variable that is not set.
    """
    own = os.environ.get("TUNE_VFL_STORAGE")
    named = usable(os.fspath(given), "storage") if given else from_environment(own, "TUNE_VFL_STORAGE") if own else None
    if named is None:
        return SqliteFile(home() / "ledger.db")
    scheme, mark, _ = named.partition("://")
    if not mark:
        return _file(Path(named).absolute())
    if (path := sqlite_path(named)) is not None:
        return _file(path)
    if scheme.partition("+")[0] in {"postgresql", "postgres"}:
        if parts_of(named) is None:
            raise UsageError(
                f"storage {hide_password(named)}: cannot be read; several hosts are ?host=A:5432&host=B:5432, a Unix "
                "socket is ?host=/FOLDER, and of a password @ : / are %40 %3A %2F"
            )
        return PostgresServer(named)
    raise UsageError(f"storage {hide_password(named)}: expected a path, sqlite:///PATH or postgresql://USER@HOST/NAME")


def _file(path: Path) -> SqliteFile:
    if os.path.isdir(path):  # noqa: PTH112 - which takes what cannot be looked at for none
        raise UsageError(
            f"storage {path}: is a folder; expected a file, sqlite:///PATH or postgresql://USER@HOST/NAME, such as "
            f"{path / 'ledger.db'} of a home (TUNE_VFL_HOME)"
        )
    return SqliteFile(path)


@cache
def _say_once(text: str) -> None:
    tell(text)


def _begin_reading(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _told_apart(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from others of its name; None for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _lock(connection: Connection) -> None:
    """Lock the file, which one transaction at a time may write."""
    until = time.monotonic() + _LOCKED_SECONDS
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            return
        except OperationalError as error:
            busy = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > until:
                raise


def _log_ahead(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    # With the write-ahead log a crash of the process loses nothing; only a power cut may lose the last commits.
    connection.execute("PRAGMA synchronous=NORMAL")


def _limit_connection(connection: Any, _record: Any) -> None:
    connection.execute(_LIMITS)
    connection.commit()

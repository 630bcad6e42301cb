"""Database access: transactions that are retried while the database does not answer, and leases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from sqlalchemy import Connection, Engine, NullPool, Pool, func, select

from tune_vfl.errors import StudyError
from tune_vfl.ledger.damage import damage_named
from tune_vfl.ledger.db_errors import retry, translated
from tune_vfl.ledger.lease import Clock, Lease
from tune_vfl.ledger.schema import make_tables, studies, version_of
from tune_vfl.machine.passwords import hide_password

T = TypeVar("T")


class LedgerStorage(ABC):
    """The database of a ledger.

    Args:
        url: the database, as SQLAlchemy takes it.

    Attributes:
        shown: the same without its password.
    """

    def __init__(self, url: str) -> None:
        self.url, self.shown = url, hide_password(url)
        self._checked = False

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the database holds a ledger; creates nothing.

        Raises:
            StudyError: for tables of an earlier or a later program.
            UnreachableError: when the database does not answer.
        """

    @abstractmethod
    def clock(self, connection: Connection) -> Clock:
        """Read the clock that all clients of this database share."""

    @abstractmethod
    def serialize(self, connection: Connection) -> None:
        """Serialize this transaction with all others that call this method."""

    @abstractmethod
    def _engine(self, pool: type[Pool] | None, *, writes: bool) -> Engine:
        """Return an engine; a writing one locks a sqlite file from the start of each transaction."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create the place of the tables, such as the folder of a sqlite file."""

    def version(self) -> int:
        """Return the version of the tables; 0 where there are none; errors are those of :meth:`exists`."""
        with translated(self.shown), self._reader.connect() as connection:
            return version_of(connection, self.shown)

    def count(self) -> int:
        """Return the number of studies; the ledger must exist."""
        return self.read(lambda connection: connection.execute(select(func.count()).select_from(studies)).scalar_one())

    def read(self, ask: Callable[[Connection], T]) -> T:
        """Run a query, with retries while the database does not answer; errors are those of :meth:`snapshot`."""

        def attempt() -> T:
            with self.snapshot() as connection:
                return ask(connection)

        return retry(attempt)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a reading transaction for the block; the ledger must exist.

        Raises:
            StudyError: for tables of an earlier or a later program, and where there are none.
            DamagedError: for a value that is not what was written.
            UnreachableError: when the database does not answer.
        """
        with translated(self.shown), self._reader.begin() as connection:
            self._check(connection)
            with damage_named(connection, self.shown):
                yield connection

    def write(self, change: Callable[[Connection], T], lease: Lease | None = None) -> T:
        """Run a change in one transaction, with retries while the database does not answer.

        Args:
            change: is called again after a lost connection, when the first transaction has ended but its result is
                unknown.
            lease: must be held, and stays held until the transaction ends; None requires none.

        Raises:
            LeaseLostError: when another process holds the lease.
            UnreachableError: when the database does not answer or cannot be written.
        """

        def attempt() -> T:
            with self.transaction(lease) as connection:
                return change(connection)

        return retry(attempt)

    @contextmanager
    def transaction(self, lease: Lease | None = None) -> Iterator[Connection]:
        """Open a writing transaction for the block, without the retries of :meth:`write`."""
        with translated(self.shown), self._writer.begin() as connection:
            self._check(connection)
            if lease is not None:
                lease.require(connection)
            with damage_named(connection, self.shown):
                yield connection

    def make(self) -> None:
        """Create the tables if the database has none.

        Raises:
            StudyError: for tables of an earlier or a later program.
            UnreachableError: when the database does not answer or cannot be written.
        """
        if self._checked:
            return
        with translated(self.shown):
            self._prepare()
            with self._writer.begin() as connection:
                self.serialize(connection)
                if not version_of(connection, self.shown):
                    make_tables(connection)
        self._checked = True

    @contextmanager
    def lease(self, name: str, *, take_over: bool = False, room: str = "") -> Iterator[Lease]:
        """Hold the lease of a study or a campaign for the block; see :meth:`Lease.hold`.

        A campaign has one lease, which is also that of each of its parts.

        Raises:
            StudyError: when another process holds it, or another program has made the tables.
            UnreachableError: when the database does not answer or cannot be written.
        """
        self.make()
        of = select(studies.c.campaign).where(studies.c.name == name)
        campaign = self.read(lambda connection: connection.execute(of).scalar_one_or_none())
        try:
            with Lease.hold(campaign or name, self, take_over=take_over, room=room) as held:
                yield held
        finally:
            self.close()

    def close(self) -> None:
        """Close the writing connections; the next change opens new ones."""
        self._writer.dispose()

    def _check(self, connection: Connection) -> None:
        if not self._checked and not version_of(connection, self.shown):
            raise StudyError(f"there is no ledger at {self.shown} yet: a search makes it")
        self._checked = True

    @cached_property
    def _reader(self) -> Engine:
        # Many studies may be open to be read, each by a storage of its own: none keeps a connection.
        return self._engine(NullPool, writes=False)

    @cached_property
    def _writer(self) -> Engine:
        return self._engine(None, writes=True)

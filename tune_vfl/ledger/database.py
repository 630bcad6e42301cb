"""Database access: transactions that are retried while the database does not answer, and leases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, Pool, create_engine, event, func, select

from tune_vfl.errors import StudyError, UsageError
from tune_vfl.ledger.damage import damage_named
from tune_vfl.ledger.db_errors import LedgerGoneError, retry, translated
from tune_vfl.ledger.lease import Clock, Lease, holders_in
from tune_vfl.ledger.schema import SCHEMA, bring_up, identity_of, make_tables, studies, version_of
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
        self._known = ""  # the identity of the ledger that was found there first

    @abstractmethod
    def _is_there(self) -> bool:
        """Return whether there is a database to ask."""

    @abstractmethod
    def clock(self, connection: Connection) -> Clock:
        """Read the clock that all clients of this database share."""

    @abstractmethod
    def serialize(self, connection: Connection) -> None:
        """Serialize this transaction with all others that call this method."""

    @abstractmethod
    def _connecting(self) -> tuple[URL, dict[str, Any]]:
        """Return the URL with its driver and the arguments of an engine by which it connects."""

    @abstractmethod
    def _moments(self, *, writes: bool) -> Mapping[str, Callable[..., None]]:
        """Return what is to be done when a connection or a transaction begins, by SQLAlchemy's names of the events."""

    def _engine(self, pool: type[Pool] | None, *, writes: bool) -> Engine:
        """Return an engine: the one function that connects to a database; the URL has passed :func:`usable`."""
        url, how = self._connecting()
        try:
            engine = create_engine(url, **how, **({"pool_pre_ping": True} if pool is None else {"poolclass": pool}))
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the ledger {self.shown}: PostgreSQL needs psycopg; python -m pip install 'tune-vfl[postgres]'"
            ) from error
        for moment, do in self._moments(writes=writes).items():
            event.listen(engine, moment, do)
        return engine

    @abstractmethod
    def _prepare(self) -> None:
        """Create the place of the tables, such as the folder of a sqlite file."""

    def exists(self) -> bool:
        """Return whether the database holds a ledger; creates nothing.

        Raises:
            StudyError: for tables of an earlier or a later program.
            UnreachableError: when the database does not answer.
        """
        return bool(self.identity())

    def identity(self) -> str:
        """Return what tells this ledger from every other one; empty without a ledger. Errors: see :meth:`exists`."""
        if not self._is_there():
            return ""
        with translated(self.shown), self._reader.connect() as connection:
            return identity_of(connection, self.shown)

    def version(self) -> int:
        """Return the version of the tables, of an earlier release too; 0 where there are none.

        Raises:
            StudyError: for Optuna's tables, and for those of a later program.
            UnreachableError: when the database does not answer.
        """
        if not self._is_there():
            return 0
        with translated(self.shown), self._reader.connect() as connection:
            return version_of(connection, self.shown)

    def migrate(self) -> int:
        """Bring the tables of an earlier release to this one's, in one transaction; nothing where there are none.

        Returns:
            The version that they had.

        Raises:
            StudyError: while a process holds a lease, and as :meth:`version`; nothing was changed then.
            UnreachableError: when the database does not answer or cannot be written.
        """
        if self.version() in (0, SCHEMA):
            return self.version()

        def attempt() -> int:
            with translated(self.shown), self._writer.begin() as connection:
                self.serialize(connection)
                before = version_of(connection, self.shown)
                if running := [name for name, _ in holders_in(connection, self.clock(connection))]:
                    raise StudyError(
                        f"the ledger {self.shown} is in use: {', '.join(running)} is being run; stop it, and migrate "
                        "again. Nothing was changed"
                    )
                bring_up(connection, before)
                return before

        try:
            return retry(attempt)
        finally:
            self.close()

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
            if not self._known:
                self._recognize(connection)
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
            StudyError: when another program has made the tables, or has changed them since.
            LedgerGoneError: when the ledger is not the one of before.
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
            self._recognize(connection)
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
        if self._known:
            return
        with translated(self.shown):
            self._prepare()
            with self._writer.begin() as connection:
                self.serialize(connection)
                self._known = identity_of(connection, self.shown) or make_tables(connection)

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

    def _recognize(self, connection: Connection) -> None:
        """Refuse a database without a ledger, and one whose ledger is not this program's or not the one of before."""
        found = identity_of(connection, self.shown)
        if not (found or self._known):
            raise StudyError(f"there is no ledger at {self.shown} yet: a search makes it")
        if self._known not in ("", found):
            raise LedgerGoneError(self.shown, "another one is there now" if found else "its tables are there no more")
        self._known = found

    @cached_property
    def _reader(self) -> Engine:
        # Many studies may be open to be read, each by a storage of its own: none keeps a connection.
        return self._engine(NullPool, writes=False)

    @cached_property
    def _writer(self) -> Engine:
        return self._engine(None, writes=True)

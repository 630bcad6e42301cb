"""A ledger's database, whatever its kind: opened, leased and brought up in the same way."""

from __future__ import annotations

import sqlite3
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, TuneVflError, UnreachableError
from tune_vfl.ledger.lease import Clock, Lease, holders
from tune_vfl.ledger.reader import SqlReader
from tune_vfl.ledger.schema import bring_up, campaign_of, refuse_newer
from tune_vfl.ledger.trouble import LedgerTroubleError, speak_plainly, trouble_of, with_patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from optuna.storages import BaseStorage, RDBStorage
    from sqlalchemy import Connection, Engine

    from tune_vfl.ledger.reader import Reader


class LedgerStorage(ABC):
    """The database of a ledger.

    Args:
        url: the database, as SQLAlchemy takes it.

    Attributes:
        shown: the same, as it may be shown.
    """

    def __init__(self, url: str) -> None:
        self.url, self.shown = url, hide_password(url)

    @abstractmethod
    def exists(self) -> bool:
        """Say whether there is a ledger to read, without making one.

        Raises:
            UnreachableError: when the database does not answer.
        """

    @abstractmethod
    def engine(self) -> Engine:
        """Return an engine that keeps no connection open."""

    @abstractmethod
    def for_leases(self) -> Engine:
        """Return an engine whose transactions change a row one after the other; no connection of it stays open."""

    @abstractmethod
    def clock(self, connection: Connection) -> Clock:
        """Look at the clock that all who use this database share."""

    @abstractmethod
    def _making(self) -> AbstractContextManager[None]:
        """Be the only one who makes tables; what they stand in is made first."""

    @abstractmethod
    def _open(self, *, migrate: bool = False) -> RDBStorage:
        """Open Optuna's tables, made first where there are none, brought up first where that is asked."""

    def version(self) -> int:
        """Return the version of the ledger's tables; 0 where there is none.

        Raises:
            StudyError: for one that a later program has changed.
            UnreachableError: when the database does not answer.
        """
        with self._in_words(), self._looking() as reader:
            return refuse_newer(reader, self.shown)

    def count(self) -> int:
        """Return how many studies the ledger holds; there must be one to ask."""
        with self._in_words(), self._looking() as reader:
            return int(reader.rows("SELECT count(*) FROM studies")[0][0])

    def migrate(self) -> int:
        """Bring an older ledger up to what this program writes, Optuna's tables included.

        Returns:
            The version that it had.

        Raises:
            StudyError: for a newer one, or while a study of it is being run.
            UnreachableError: when the database does not answer or cannot be written.
        """
        with self._in_words(), self._making():
            with self.for_leases().begin() as connection:
                before = refuse_newer(SqlReader(connection), self.shown)
                bring_up(connection)
            running = holders(self)
            if running:
                study, holder = running[0]
                raise StudyError(f"study {study!r} is being run by {holder}: stop it before the ledger is brought up")
            self._open(migrate=True)
        return before

    @contextmanager
    def lease(self, study: str, *, take_over: bool = False, room: str = "") -> Iterator[Lease]:
        """Hold the right to write a study or a campaign for the block; see :meth:`Lease.hold`.

        A campaign has one lease, which is also that of each of its parts.

        Raises:
            StudyError: when another process holds it, or a later program has changed the ledger's tables.
            UnreachableError: when the database does not answer or cannot be written.
        """
        with self._in_words(), self._making(), self.for_leases().begin() as connection:
            refuse_newer(SqlReader(connection), self.shown)
            bring_up(connection)
            study = campaign_of(connection, study) or study
        with Lease.hold(study, self, take_over=take_over, room=room) as held:
            yield held

    def open(self, lease: Lease | None = None) -> BaseStorage:
        """Open the database, behind Optuna's cache of finished trials.

        Args:
            lease: everything that is written needs it; None opens it to read.

        Raises:
            StudyError: when another version of this program, or of Optuna, has made the tables.
            UnreachableError: when it does not answer.
        """
        import optuna
        from optuna.storages import get_storage

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        with self._in_words(), self._making():
            with self._looking() as reader:
                refuse_newer(reader, self.shown)
            storage = self._open()
        speak_plainly(storage.engine, self.shown)
        if lease is not None:
            lease.guard(storage.engine)
        return with_patience(get_storage(storage))

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Open the database only to look at it; there must be a ledger.

        Raises:
            StudyError: for one that a later program has changed.
            UnreachableError: when it does not answer.
        """
        with self._in_words(), self._looking() as reader:
            refuse_newer(reader, self.shown)
            yield reader

    @contextmanager
    def _looking(self) -> Iterator[Reader]:
        """Connect to ask."""
        with self._to_read.connect() as connection:
            yield SqlReader(connection)

    @cached_property
    def _to_read(self) -> Engine:
        """An engine to read with, made once: making one takes longer than most of what is asked of it."""
        engine = self.engine()
        speak_plainly(engine, self.shown)
        return engine

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say in words why a database cannot be opened."""
        try:
            yield
        except TuneVflError:
            raise
        except _broken() as error:
            trouble = trouble_of(error)
            if trouble is not None:
                raise LedgerTroubleError(self.shown, trouble) from error
            if isinstance(error, OSError):
                raise UnreachableError(
                    f"the ledger {self.shown} cannot be written ({error.strerror or error}); free or change the place "
                    "that TUNE_VFL_HOME (or TUNE_VFL_STORAGE, --storage, the spec's storage) names"
                ) from error
            raise UnreachableError(
                f"the ledger {self.shown} cannot be opened: {error}; check that the database runs, or that the folder "
                "can be written (TUNE_VFL_HOME, TUNE_VFL_STORAGE, --storage or the spec's storage names it)"
            ) from error
        except RuntimeError as error:  # of Optuna, for tables of another version of its own
            if "optuna" not in str(error):
                raise
            raise StudyError(
                f"the ledger {self.shown} was made with another version of Optuna ({error}); 'tune-vfl doctor "
                "--migrate' brings an older one up, a newer one needs the tune-vfl that wrote it"
            ) from error


def _broken() -> tuple[type[Exception], ...]:
    """Return what is raised for a database that is broken or away; Optuna is loaded for it only when one is."""
    import optuna
    import sqlalchemy.exc

    return sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error, OSError


def hide_password(url: str) -> str:
    """Return a database URL that may be shown."""
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}"

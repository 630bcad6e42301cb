"""Translation of database errors into messages, and retries of errors that pass."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from sqlalchemy.exc import DBAPIError

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.streams import tell

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""The seconds for which a search retries before it gives up."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Trouble(NamedTuple):
    """A kind of database error.

    Attributes:
        what: the problem.
        advice: the user's next step.
        passes: whether a retry may succeed.
    """

    what: str
    advice: str
    passes: bool


class LedgerTroubleError(UnreachableError):
    """An error of the ledger's database.

    Args:
        place: the database's URL without its password.
        trouble: the kind of error.
        waited: the seconds of retries.

    Attributes:
        damaged: whether a part of the file cannot be read; other parts may be.
    """

    anchor = "ledger-trouble"

    def __init__(self, place: str, trouble: Trouble, waited: float = 0.0) -> None:
        self.place, self.trouble = place, trouble
        self.damaged = trouble in (_SQLITE["SQLITE_CORRUPT"], _SQLITE["SQLITE_NOTADB"])
        tried = f" (tried again for {waited:.0f} s)" if waited else ""
        super().__init__(f"the ledger {place}: {trouble.what}{tried}; {trouble.advice}")


class LedgerGoneError(UnreachableError):
    """Where a ledger was there is none any more, or another one.

    Args:
        place: the database's URL without its password.
        what: what there is instead.
    """

    anchor = "ledger-gone"

    def __init__(self, place: str, what: str) -> None:
        super().__init__(
            f"the ledger {place} is gone: {what}; nothing more is written. Put it back or name its new place "
            "(TUNE_VFL_HOME, TUNE_VFL_STORAGE, --storage), and 'tune-vfl resume' goes on"
        )


_ROOM = "make room there; what was finished is kept, and 'tune-vfl resume' goes on"
_RUNS = "check that the server runs and can be reached; what was finished is kept, and 'tune-vfl resume' goes on"
_REFUSED = "check the URL, its user and password, and what that user may do there"
_LONGER = (
    "raise this user's statement_timeout, or ask who cancels; what was finished is kept, and 'tune-vfl resume' goes on"
)
_FOLDER = (
    "check that the file is there and its folder can be written (TUNE_VFL_HOME, --storage or the spec's storage names "
    "it)"
)
_UNKNOWN = "look at the database's log; what was finished is kept, and 'tune-vfl resume' goes on"
_ANEW = (
    "or pack the studies that can still be read ('tune-vfl study pack') and move it away to start anew; nothing else "
    "holds the results"
)

# By the start of the state that the server sends, see appendix A of PostgreSQL's manual; the longest start counts.
_STATES = {
    "08": Trouble("the connection to the server broke", _RUNS, True),
    "25P03": Trouble("the server ended a transaction in which nothing was heard for a minute", _RUNS, True),
    "25P04": Trouble("the server ended a transaction that took longer than its transaction_timeout", _RUNS, True),
    "25006": Trouble("the server takes no writing now: it is a standby, or was set to read only", _RUNS, True),
    "28": Trouble("the server refuses this user or password", _REFUSED, False),
    "3D": Trouble("the server has no database of this name", _REFUSED, False),
    "40": Trouble("the server broke a transaction off that stood in another one's way", _RUNS, True),
    "42501": Trouble("this user may not do that there", _REFUSED, False),
    "53100": Trouble("the disk of the database server is full", _ROOM, False),
    "53": Trouble("the server is short of memory or connections", "raise its max_connections, or run less", True),
    "55P03": Trouble("another transaction has kept a row locked for half a minute", _RUNS, True),
    "57": Trouble("the server was stopped, is starting, or ended the connection", _RUNS, True),
    "57014": Trouble("the server broke a statement off: its statement_timeout, or somebody's cancel", _LONGER, True),
    "57P04": Trouble("the database was dropped", _REFUSED, False),
    "58": Trouble("the server cannot read or write its files", "look at the server's log and its disk", True),
}
_UNKNOWN_OPTION = Trouble("its URL asks for what PostgreSQL's client does not know", _REFUSED, False)
# By what the client says of a connection that was never made; the server's state does not come along then.
_SAYINGS = {
    "password authentication failed": _STATES["28"],
    "no pg_hba.conf entry": _STATES["28"],
    "role ": _STATES["28"],
    "does not exist": _STATES["3D"],
    "too many clients": _STATES["53"],
    "No space left on device": _STATES["53100"],
    "connection option": _UNKNOWN_OPTION,
    "bad value for": _UNKNOWN_OPTION,
}
# By the start of sqlite's name of an error.
_SQLITE = {
    "SQLITE_FULL": Trouble("the disk that holds it is full", _ROOM, False),
    "SQLITE_IOERR": Trouble("reading or writing it failed; its disk may be full or broken", _ROOM, False),
    "SQLITE_READONLY": Trouble("it cannot be written", _FOLDER, False),
    "SQLITE_CANTOPEN": Trouble("it is not there, or cannot be opened", _FOLDER, False),
    "SQLITE_PROTOCOL": Trouble("other processes have kept its log locked", "look which ones, and stop them", True),
    "SQLITE_BUSY": Trouble("another process has kept it locked for a minute", "look which one, and stop it", True),
    "SQLITE_CORRUPT": Trouble("the file is damaged: restore it from a backup", _ANEW, False),
    "SQLITE_NOTADB": Trouble("the file is no database or is damaged: restore it from a backup", _ANEW, False),
}


def trouble_of(error: BaseException | None, *, broken: bool = False) -> Trouble | None:
    """Classify an error of a database driver, or one caused by it; None for a mistake in the statement.

    An error of the database's work that no table here names is told at once, in its own words.

    Args:
        error: as it was raised, or wrapped by SQLAlchemy.
        broken: whether SQLAlchemy reports a lost connection.
    """
    while error is not None:
        found = _named(error)
        if found is not None:
            return found
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        code = getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
        kinds = {c.__name__ for c in type(error).__mro__}
        # psycopg's errors without a state are those of the client: no connection, or one that broke.
        if broken or (hasattr(error, "sqlstate") and not code and "OperationalError" in kinds):
            return Trouble(f"the server does not answer ({said})", _RUNS, passes=True)
        # Of a statement that sqlite cannot follow it says SQLITE_ERROR, in the same class.
        if code not in (None, "SQLITE_ERROR") and kinds & {"OperationalError", "InternalError"}:
            return Trouble(f"the database says {said} ({code})", _UNKNOWN, passes=False)
        error = getattr(error, "orig", None) or error.__cause__
    return None


def _named(error: BaseException) -> Trouble | None:
    name = getattr(error, "sqlite_errorname", None)
    if name is not None:
        return next((t for start, t in _SQLITE.items() if str(name).startswith(start)), None)
    if not hasattr(error, "sqlstate"):
        return None
    state = error.sqlstate or ""
    starts = [start for start in _STATES if state.startswith(start)]
    if starts:
        return _STATES[max(starts, key=len)]
    return next((t for mark, t in _SAYINGS.items() if not state and mark in str(error)), None)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise :class:`LedgerTroubleError` for errors of the database; mistakes in a statement stay as they are.

    Args:
        place: the database's URL without its password.
    """
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        trouble = trouble_of(error, broken=getattr(error, "connection_invalidated", False))
        if trouble is None:
            raise
        raise LedgerTroubleError(place, trouble) from error


def retry(attempt: Callable[[], T]) -> T:
    """Run a transaction, with retries while the error may pass.

    Args:
        attempt: a whole transaction. One whose connection broke may have come to its end all the same: an attempt that
            must not be done twice looks first.

    Raises:
        LedgerTroubleError: after :data:`PATIENCE_SECONDS`, or at once where retries cannot help.
    """
    begun: float | None = None
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except LedgerTroubleError as error:
            if not error.trouble.passes:
                raise
            if begun is None:
                begun = time.monotonic()
                tell(f"tune-vfl: the ledger {error.place}: {error.trouble.what}; waiting for it")
            elif time.monotonic() - begun > PATIENCE_SECONDS:
                raise LedgerTroubleError(error.place, error.trouble, time.monotonic() - begun) from error
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)

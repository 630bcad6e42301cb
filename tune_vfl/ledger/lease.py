"""The lease on a study: who may write it, as the ledger's own database says.

One row a study: the holder, an epoch that grows whenever the lease changes hands, and the moment at which it runs out
unless it is renewed, by a clock that all who look at the row share: the server's, or for a file the time since this
machine was started. A holder that ended on this machine holds nothing; of any other one the time is waited for.

Who holds the lease looks at the row again in every transaction that writes, and keeps it from changing until the
transaction ends. So a driver that was stopped, cut off or taken over cannot write, whatever it believes.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tune_vfl.errors import StudyError
from tune_vfl.ledger.owner import end_session, has_ended, new_session, this_owner
from tune_vfl.ledger.trouble import LedgerTroubleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

LEASE_SECONDS = 60.0
"""How long a holder may be silent before another one may take its place."""

TABLE = """
CREATE TABLE IF NOT EXISTS tune_vfl_leases (
  study TEXT PRIMARY KEY, epoch BIGINT NOT NULL, holder TEXT NOT NULL, since TEXT NOT NULL,
  clock TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL
)
"""
_FIRST = "INSERT INTO tune_vfl_leases VALUES (:study, 0, '', '', '', 0) ON CONFLICT DO NOTHING"
_ALL = "SELECT epoch, holder, since, clock, expires, study FROM tune_vfl_leases"
_READ = f"{_ALL} WHERE study = :study"
_TAKE = (
    "UPDATE tune_vfl_leases SET epoch = :epoch, holder = :holder, since = :since, clock = :clock, expires = :expires "
    "WHERE study = :study"
)
_RENEW = (
    "UPDATE tune_vfl_leases SET clock = :clock, expires = :expires "
    "WHERE study = :study AND epoch = :epoch AND holder = :holder"
)
_GIVE_BACK = (
    "UPDATE tune_vfl_leases SET holder = '', expires = 0 WHERE study = :study AND epoch = :epoch AND holder = :holder"
)
_FORGET = "DELETE FROM tune_vfl_leases WHERE study = :study"
_WRITES = ("INSERT", "UPDATE", "DELETE")
_SEEN = "tune_vfl.lease"


class LeaseLostError(StudyError):
    """Another one writes this study now: who had it before must stop."""


class Clock(NamedTuple):
    """A moment on a clock that all who use a database share.

    Attributes:
        name: which clock; times of another one mean nothing.
        now: in seconds.
    """

    name: str
    now: float


class Leasable(Protocol):
    """A database that has leases."""

    def for_leases(self) -> Engine:
        """Return an engine whose transactions change a row one after the other; no connection of it stays open."""

    def clock(self, connection: Connection) -> Clock:
        """Look at the shared clock."""


@dataclass(frozen=True)
class Holder:
    """What a row says."""

    epoch: int
    text: str
    since: str
    clock: Clock

    @property
    def owner(self) -> dict[str, Any]:
        """Who holds it; empty when nobody does."""
        owner: dict[str, Any] = json.loads(self.text) if self.text else {}
        return owner

    def stands(self, clock: Clock) -> bool:
        """Say whether nobody else may take the study yet."""
        return bool(self.text) and self.left(clock) > 0 and not has_ended(self.owner)

    def left(self, clock: Clock) -> float:
        """Return the seconds until it runs out; none by a clock that has since begun anew."""
        return self.clock.now - clock.now if self.clock.name == clock.name else 0.0

    def __str__(self) -> str:
        if not self.text:
            return "nobody"
        return f"process {self.owner.get('pid')} on {self.owner.get('host')} (since {self.since})"


class Lease:
    """The right to write one study, held by this process.

    Attributes:
        study: its name.
        session: this run of the process.
        taken_from: who was driven out, with :meth:`hold`'s ``take_over``; None when it was free.
    """

    def __init__(self, study: str, place: Leasable, room: str = "") -> None:
        self.study, self._place, self._room = study, place, room
        self._engine = place.for_leases()
        self.session = new_session()
        self._text = json.dumps({**this_owner(self.session), "room": room})
        self._epoch = 0
        self._lost: LeaseLostError | None = None
        self._over = threading.Event()
        self.taken_from: Holder | None = None

    @classmethod
    @contextmanager
    def hold(cls, study: str, place: Leasable, *, take_over: bool = False, room: str = "") -> Iterator[Lease]:
        """Hold a study for the block.

        Args:
            study: its name.
            place: the database, its table of leases made.
            take_over: drive another holder out.
            room: what its packs share with those of other studies, see :meth:`roommates`.

        Raises:
            StudyError: when another process holds it; the message says which, since when, and what to do.
            LedgerTroubleError: when the database cannot be written.
        """
        lease = cls(study, place, room)
        try:
            lease._take(take_over=take_over)
            heart = threading.Thread(target=lease._beat, name=f"tune-vfl-lease-{study}", daemon=True)
            heart.start()
            try:
                yield lease
            finally:
                lease._over.set()
                heart.join()
                with suppress(LedgerTroubleError):  # it runs out by itself
                    lease._change(_GIVE_BACK)
        finally:
            end_session(lease.session)

    def check(self) -> None:
        """Look whether it is still held, as far as is known without asking.

        Raises:
            LeaseLostError: when the heart has found that it is not.
        """
        if self._lost is not None:
            raise self._lost

    def roommates(self) -> list[str]:
        """Return the studies that are held now and share this one's room, itself among them, the oldest lease first."""
        sharing = [(h.since, study) for study, h in holders(self._place) if h.owner.get("room") == self._room]
        return [study for _, study in sorted(sharing)]

    def settle(self) -> None:
        """Renew it, which waits for the end of every transaction of this holder that the database still works on."""
        if not self._change(_RENEW):
            raise self._gone(self._read())

    def guard(self, engine: Engine) -> None:
        """Let no transaction of this engine write unless the lease is held, and keep it held until it ends.

        Such a transaction raises :class:`LeaseLostError`, which Optuna neither hides nor tries again.
        """
        import sqlalchemy

        lock = " FOR SHARE" if engine.dialect.name == "postgresql" else ""
        row = sqlalchemy.text(_READ + lock)

        # After the first change: then the transaction is open in every database, and of a file nobody else may write.
        def look(connection: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
            if not statement.lstrip().upper().startswith(_WRITES):
                return
            transaction = connection.get_transaction()
            if connection.info.get(_SEEN) is transaction:
                return
            found = connection.execute(row, {"study": self.study}).one_or_none()
            if found is None or (found.epoch, found.holder) != (self._epoch, self._text):
                raise self._gone(_holder(found))
            connection.info[_SEEN] = transaction

        sqlalchemy.event.listen(engine, "after_cursor_execute", look)

    def _take(self, *, take_over: bool) -> None:
        from sqlalchemy import text

        with self._engine.begin() as connection:
            connection.execute(text(_FIRST), {"study": self.study})
            lock = " FOR UPDATE" if self._engine.dialect.name == "postgresql" else ""
            held = _holder(connection.execute(text(_READ + lock), {"study": self.study}).one())
            clock = self._place.clock(connection)
            if held.stands(clock):
                if not take_over:
                    raise _in_use(self.study, held, clock)
                self.taken_from = held
            since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            values = {**self._values(clock), "epoch": held.epoch + 1, "since": since}
            connection.execute(text(_TAKE), values)
        self._epoch = held.epoch + 1

    def _values(self, clock: Clock) -> dict[str, Any]:
        expires = clock.now + LEASE_SECONDS
        return {
            "study": self.study,
            "epoch": self._epoch,
            "holder": self._text,
            "clock": clock.name,
            "expires": expires,
        }

    def _change(self, statement: str) -> bool:
        """Change the row, if it is still ours."""
        from sqlalchemy import text

        with self._engine.begin() as connection:
            return connection.execute(text(statement), self._values(self._place.clock(connection))).rowcount == 1

    def _read(self) -> Holder:
        return read_lease(self.study, self._engine)

    def _beat(self) -> None:
        pause = LEASE_SECONDS / 3
        while not self._over.wait(pause):
            try:
                if not self._change(_RENEW):
                    self._lost = self._gone(self._read())
                    return
                pause = LEASE_SECONDS / 3
            except Exception:  # the heart goes on whatever happens to one beat: the driver's own writing will tell
                pause = LEASE_SECONDS / 30

    def _gone(self, now: Holder) -> LeaseLostError:
        return LeaseLostError(
            f"study {self.study!r} was taken over by another process: {now} has it now; this one has stopped, and "
            f"wrote nothing since. What was finished before is kept: 'tune-vfl status {self.study}' shows how far it is"
            if now.text
            else f"study {self.study!r} is not held by this process any more, which has stopped; nobody has it now: "
            f"'tune-vfl resume {self.study}' goes on"
        )


def holders(place: Leasable) -> list[tuple[str, Holder]]:
    """Return the studies that are held now, by name, each with who holds it; the table of leases must be there."""
    from sqlalchemy import text

    with place.for_leases().connect() as connection:
        clock = place.clock(connection)
        rows = connection.execute(text(f"{_ALL} ORDER BY study")).all()
    found = [(str(row[5]), _holder(row)) for row in rows]
    return [(study, holder) for study, holder in found if holder.stands(clock)]


def read_lease(study: str, engine: Engine) -> Holder:
    """Return what the row of a study says; one without a row has no holder."""
    from sqlalchemy import text

    with engine.connect() as connection:
        return _holder(connection.execute(text(_READ), {"study": study}).one_or_none())


def forget(connection: Connection, study: str) -> None:
    """Delete the row of a study that is no more; who holds it must be the one who asks."""
    from sqlalchemy import text

    connection.execute(text(_FORGET), {"study": study})


def _holder(row: Any) -> Holder:
    return Holder(0, "", "", Clock("", 0.0)) if row is None else Holder(row[0], row[1], row[2], Clock(row[3], row[4]))


def _in_use(study: str, held: Holder, clock: Clock) -> StudyError:
    silent = LEASE_SECONDS - held.left(clock)
    return StudyError(
        f"study {study!r} is being run by another process: {held}, last heard of {max(0.0, silent):.0f} s ago. Wait "
        f"for it, or stop it and resume. If it was cut off, its lease runs out {held.left(clock):.0f} s from now; "
        f"'tune-vfl resume {study} --take-over' takes the study from it at once"
    )

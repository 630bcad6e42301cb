"""Leases: at most one process may write a study, and the database holds which one.

One row a study: the holder, an epoch that grows whenever the lease changes hands, and the moment at which it runs out
unless it is renewed, by a clock that all who look at the row share: the server's, or for a file the time since this
machine was started. A holder that ended on this machine holds nothing; of any other one the time is waited for. A file
that another machine writes too has no such clock: its holder is taken over by hand.

The holder selects its row, by holder and epoch, at the start of every transaction that writes, and keeps it locked
until the transaction ends. So a driver that was stopped, cut off or taken over cannot write, whatever it believes.
"""

from __future__ import annotations

import json
import math
import platform
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Connection, insert, select, update

from tune_vfl.errors import StudyError, TuneVflError
from tune_vfl.ledger.db_errors import LedgerGoneError
from tune_vfl.ledger.schema import leases
from tune_vfl.machine.process_identity import end_session, has_ended, new_session, this_owner

LEASE_SECONDS = 60.0
"""How long a holder may be silent before another one may take its place."""
_GIVEN_BACK = 0.0
"""The moment at which a lease runs out that was given back; no clock has shown it."""


class LeaseLostError(StudyError):
    """Another process has taken the lease; this one must stop."""

    anchor = "lease-lost"


class Clock(NamedTuple):
    """A clock that all clients of a database share, and its time in seconds; times of other clocks say nothing."""

    name: str
    now: float


class Leasable(Protocol):
    """Interface of a database with leases."""

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Open a reading transaction for the block."""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Open a writing transaction for the block."""

    def serialize(self, connection: Connection, /) -> None:
        """Serialize this transaction with all others that call this method."""

    def clock(self, connection: Connection, /) -> Clock:
        """Read the shared clock."""


@dataclass(frozen=True)
class Holder:
    """The current or last holder of a lease, from its row."""

    epoch: int
    text: str
    since: str
    clock: Clock

    @property
    def owner(self) -> dict[str, Any]:
        """The process that holds the lease or held it last; empty when there was none."""
        owner: dict[str, Any] = json.loads(self.text) if self.text else {}
        return owner

    @property
    def gave_back(self) -> bool:
        """Whether the holder has released the lease."""
        return self.clock.now == _GIVEN_BACK

    def stands(self, clock: Clock) -> bool:
        """Return whether the lease is still in force."""
        return bool(self.text) and self.left(clock) > 0 and not has_ended(self.owner)

    def left(self, clock: Clock) -> float:
        """Return the seconds until it expires; 0 by a clock that has restarted since.

        Of a file that another machine has leased, by a clock of its own, nothing is known: infinite.
        """
        if self.clock.name == clock.name:
            return self.clock.now - clock.now
        return math.inf if self.elsewhere and not self.gave_back else 0.0

    def unheard(self, clock: Clock) -> str:
        """Say who holds it and has missed a beat; empty while it renews its lease."""
        silent = LEASE_SECONDS - self.left(clock)
        if math.isinf(silent):
            return f"{self} holds it: whether that still runs cannot be known from here"
        return f"{self} was last heard of {silent:.0f} s ago" if silent > LEASE_SECONDS / 2 else ""

    @property
    def elsewhere(self) -> bool:
        """Whether the holder runs, or ran, on another machine."""
        return bool(self.text) and self.owner.get("host") != platform.node()

    def __str__(self) -> str:
        if not self.text:
            return "nobody"
        return f"process {self.owner.get('pid')} on {self.owner.get('host')} (since {self.since})"


class Lease:
    """The right of this process to write one study or campaign.

    Attributes:
        study: its name.
        session: this run of the process.
        taken_from: the former holder, with :meth:`hold`'s ``take_over``; None when it was free.
    """

    def __init__(self, study: str, place: Leasable, room: str = "") -> None:
        self.study, self._place, self._room = study, place, room
        self.session = new_session()
        self._text = json.dumps({**this_owner(self.session), "room": room})
        self._epoch = 0
        self._lost: StudyError | LedgerGoneError | None = None
        self._over = threading.Event()
        self.taken_from: Holder | None = None

    @classmethod
    @contextmanager
    def hold(cls, study: str, place: Leasable, *, take_over: bool = False, room: str = "") -> Iterator[Lease]:
        """Acquire a lease for the block.

        Args:
            study: its name.
            place: the database, its tables made.
            take_over: take the lease from its holder.
            room: the resources that its packs share with other studies, see :meth:`roommates`.

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
                with suppress(TuneVflError):  # it runs out by itself
                    lease._give_back()
        finally:
            end_session(lease.session)

    def check(self) -> None:
        """Check the last known state of the lease, without a query.

        Raises:
            LeaseLostError: when a renewal has failed because another process holds it.
            StudyError: because another program has changed the ledger's tables.
            LedgerGoneError: because the ledger is not there any more.
        """
        if self._lost is not None:
            raise self._lost

    def require(self, connection: Connection) -> None:
        """Refuse a transaction unless the lease is held, and keep it held until the transaction ends.

        An earlier transaction of this holder that the server still works on is waited for.

        Raises:
            LeaseLostError: when it is not.
        """
        if connection.execute(select(leases.c.epoch).where(*self._ours).with_for_update()).one_or_none() is None:
            raise self._gone(lease_of(self.study, connection))

    def roommates(self) -> list[str]:
        """Return the leased studies that share this one's room, itself included, the oldest lease first."""
        sharing = [(h.since, study) for study, h in holders(self._place) if h.owner.get("room") == self._room]
        return [study for _, study in sorted(sharing)]

    @property
    def _ours(self) -> tuple[ColumnElement[bool], ...]:
        return leases.c.name == self.study, leases.c.epoch == self._epoch, leases.c.holder == self._text

    def _take(self, *, take_over: bool) -> None:
        with self._place.transaction() as connection:
            self._place.serialize(connection)
            held, clock = lease_of(self.study, connection, lock=True), self._place.clock(connection)
            if held.stands(clock):
                if not take_over:
                    raise _in_use(self.study, held, clock)
                self.taken_from = held
            epoch, since = held.epoch + 1, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            row = {"epoch": epoch, "holder": self._text, "since": since, **_until(clock)}
            there = leases.c.name == self.study
            if not connection.execute(update(leases).where(there).values(row)).rowcount:
                connection.execute(insert(leases).values(name=self.study, **row))
        self._epoch = epoch

    def _renew(self) -> None:
        """Renew the lease."""
        with self._place.transaction() as connection:
            renewed = update(leases).where(*self._ours).values(_until(self._place.clock(connection)))
            if not connection.execute(renewed).rowcount:
                raise self._gone(lease_of(self.study, connection))

    def _give_back(self) -> None:
        with self._place.transaction() as connection:
            # The holder's name stays: a process that was taken over is told by which one, even if that has ended.
            connection.execute(update(leases).where(*self._ours).values(epoch=self._epoch + 1, expires=_GIVEN_BACK))

    def _beat(self) -> None:
        pause = LEASE_SECONDS / 3
        while not self._over.wait(pause):
            try:
                self._renew()
                pause = LEASE_SECONDS / 3
            except (StudyError, LedgerGoneError) as lost:  # which no later beat mends
                self._lost = lost
                return
            except Exception:  # the heart goes on whatever happens to one beat: the driver's own writing will tell
                pause = LEASE_SECONDS / 30

    def _gone(self, now: Holder) -> LeaseLostError:
        taken = f"study {self.study!r} was taken over by another process: {now}"
        if now.text and not now.gave_back:
            return LeaseLostError(
                f"{taken} has it now; this one has stopped, and wrote nothing since. What was finished before is kept: "
                f"'tune-vfl status {self.study}' shows how far it is"
            )
        lost = f"{taken} has ended" if now.text else f"study {self.study!r} is not held by this process any more"
        return LeaseLostError(
            f"{lost}; this one has stopped; nobody has it now: 'tune-vfl resume {self.study}' goes on"
        )


def holders(place: Leasable) -> list[tuple[str, Holder]]:
    """Return the leases in force, by study, with their holders; the ledger must exist."""
    with place.snapshot() as connection:
        return holders_in(connection, place.clock(connection))


def holders_in(connection: Connection, clock: Clock) -> list[tuple[str, Holder]]:
    """Return the leases that a clock finds in force, by study, with their holders; of any release's ledger."""
    rows = connection.execute(select(leases).order_by(leases.c.name)).all()
    found = [(str(row.name), _holder(row)) for row in rows]
    return [(study, holder) for study, holder in found if holder.stands(clock)]


def lease_of(study: str, connection: Connection, *, lock: bool = False) -> Holder:
    """Return the holder in a lease's row; an empty one without a row.

    Args:
        study: its name, or its campaign's.
        connection: to the ledger.
        lock: lock the row until the transaction ends.
    """
    row = select(leases).where(leases.c.name == study)
    return _holder(connection.execute(row.with_for_update() if lock else row).one_or_none())


def _holder(row: Any) -> Holder:
    if row is None:
        return Holder(0, "", "", Clock("", 0.0))
    return Holder(row.epoch, row.holder, row.since, Clock(row.clock, row.expires))


def _until(clock: Clock) -> dict[str, Any]:
    return {"clock": clock.name, "expires": clock.now + LEASE_SECONDS}


def _in_use(study: str, held: Holder, clock: Clock) -> StudyError:
    take_over = f"'tune-vfl resume {study} --take-over' takes the study from it at once"
    if math.isinf(held.left(clock)):
        return StudyError(
            f"study {study!r} is held by another machine, which writes the same file: {held}. Whether it still runs "
            f"cannot be known from here: stop it there, or if it is gone, {take_over}. A file serves one machine: "
            "for drivers on several the ledger is a PostgreSQL server"
        )
    silent = LEASE_SECONDS - held.left(clock)
    return StudyError(
        f"study {study!r} is being run by another process: {held}, last heard of {max(0.0, silent):.0f} s ago. Wait "
        f"for it, or stop it and resume. If it was cut off, its lease runs out {held.left(clock):.0f} s from now; "
        f"{take_over}"
    )

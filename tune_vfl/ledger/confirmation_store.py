"""Store of one study's confirmations: a record per setting and seed, tuned attackers, and the answer."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Executable, delete, insert, select, update

from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.schema import confirmations, studies, trials
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.confirmations import Confirmation, SeedRecord

Place = tuple[int, int]
"""A trial's number, or :data:`tune_vfl.records.confirmations.UNDEFENDED`, and a seed."""


class Confirmations:
    """The stored confirmations of one study.

    Every record has a row of its own, so that writing one twice leaves one, and a kill loses none that was written.
    """

    def __init__(self, place: LedgerStorage, study: str, lease: Lease | None) -> None:
        self._place, self._study, self._lease = place, study, lease

    def records(self) -> dict[Place, SeedRecord]:
        """Return all stored records."""
        table = confirmations.c
        rows = self._ask(select(table.number, table.seed, table.record).where(table.study == self._study))
        return {(number, seed): SeedRecord.model_validate(record) for number, seed, record in rows}

    def keep(self, place: Place, record: SeedRecord) -> None:
        """Store the record of one setting with one seed; an earlier one is replaced."""
        row = {"study": self._study, "number": place[0], "seed": place[1]}
        there = [confirmations.c[name] == value for name, value in row.items()]
        plain = record.model_dump(mode="json", exclude_defaults=True)
        self._do(delete(confirmations).where(*there), insert(confirmations).values(record=plain, **row))

    def tuned(self) -> dict[int, TunedAttack]:
        """Return the tuned attackers, by the trial against which they were tuned."""
        of = trials.c.study == self._study, trials.c.tuned.is_not(None)
        rows = self._ask(select(trials.c.number, trials.c.tuned).where(*of))
        return {number: TunedAttack.model_validate(tuned) for number, tuned in rows}

    def keep_tuned(self, number: int, found: TunedAttack) -> None:
        """Store the best attacker found against a trial's setting."""
        there = trials.c.study == self._study, trials.c.number == number
        self._do(update(trials).where(*there).values(tuned=found.model_dump(mode="json")))

    def set_answer(self, answer: Confirmation) -> None:
        """Store the answer of a finished confirmation."""
        self._do(update(studies).where(studies.c.name == self._study).values(confirmation=answer.plain()))

    def _ask(self, wanted: Any) -> list[Any]:
        return self._place.read(lambda connection: list(connection.execute(wanted).all()))

    def _do(self, *changes: Executable) -> None:
        def write(connection: Connection) -> None:
            for change in changes:
                connection.execute(change)

        self._place.write(write, self._lease)

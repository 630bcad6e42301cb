"""Store of confirmations: a record per setting and seed, tuned attackers, and the answers."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Executable, delete, insert, select, update

from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.schema import campaigns, confirmations, studies, trials
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.answers import Confirmation, SettingKey
from tune_vfl.records.confirmations import SeedRecord

Place = tuple[str, int, int]
"""A study's name, a trial's number or :data:`tune_vfl.records.confirmations.UNDEFENDED`, and a seed."""


class Confirmations:
    """The stored confirmations of a ledger's studies.

    Every record has a row of its own, so that writing one twice leaves one, and a kill loses none that was written.

    Args:
        place: the ledger.
        lease: that of the studies to write.
    """

    def __init__(self, place: LedgerStorage, lease: Lease | None) -> None:
        self._place, self._lease = place, lease

    def records(self, study: str) -> dict[Place, SeedRecord]:
        """Return all stored records of a study."""
        table = confirmations.c
        rows = self._ask(select(table.number, table.seed, table.record).where(table.study == study))
        return {(study, number, seed): SeedRecord.model_validate(record) for number, seed, record in rows}

    def keep(self, place: Place, record: SeedRecord) -> None:
        """Store the record of one setting with one seed; an earlier one is replaced."""
        row = dict(zip(("study", "number", "seed"), place, strict=True))
        there = [confirmations.c[name] == value for name, value in row.items()]
        plain = record.model_dump(mode="json", exclude_defaults=True)
        self._do(delete(confirmations).where(*there), insert(confirmations).values(record=plain, **row))

    def tuned(self, study: str) -> dict[SettingKey, TunedAttack]:
        """Return the tuned attackers of a study, by the setting against which they were tuned."""
        of = trials.c.study == study, trials.c.tuned.is_not(None)
        rows = self._ask(select(trials.c.number, trials.c.tuned).where(*of))
        return {(study, number): TunedAttack.model_validate(tuned) for number, tuned in rows}

    def keep_tuned(self, setting: SettingKey, found: TunedAttack) -> None:
        """Store the best attacker found against a trial's setting."""
        there = trials.c.study == setting[0], trials.c.number == setting[1]
        self._do(update(trials).where(*there).values(tuned=found.model_dump(mode="json")))

    def set_answer(self, answer: Confirmation) -> None:
        """Store the answer of a finished confirmation with its study, or with its campaign."""
        table = campaigns if answer.joint else studies
        self._do(update(table).where(table.c.name == answer.name).values(confirmation=answer.plain()))

    def _ask(self, wanted: Any) -> list[Any]:
        return self._place.read(lambda connection: list(connection.execute(wanted).all()))

    def _do(self, *changes: Executable) -> None:
        def write(connection: Connection) -> None:
            for change in changes:
                connection.execute(change)

        self._place.write(write, self._lease)

"""Ledgers of earlier releases, made from one of this release."""

from tune_vfl.ledger.database import LedgerStorage

TO_4 = (
    "ALTER TABLE tune_vfl_ledger DROP COLUMN identity",
    "ALTER TABLE studies DROP COLUMN code",
    "ALTER TABLE studies DROP COLUMN id",
    "UPDATE tune_vfl_ledger SET version = 4, program = '0.1.0'",
)


def as_0_1_0(place: LedgerStorage) -> None:
    """Take a ledger back to the tables of 0.1.0."""
    with place.transaction() as connection:
        for statement in TO_4:
            connection.exec_driver_sql(statement)
    place.close()

"""The version of a ledger's tables: an older program refuses a newer ledger, a newer program brings an older one up.

Version 1 is what there was before ledgers knew theirs: Optuna's tables alone. Version 2 has the leases
(:mod:`tune_vfl.ledger.lease`) and the row that says so. Version 3 has campaigns, whose lease is that of their parts: an
older program would take a part's own. Reading changes nothing; whoever runs a study adds what lacks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError
from tune_vfl.ledger import lease
from tune_vfl.machine.version import VERSION

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tune_vfl.ledger.reader import Reader

SCHEMA = 3
"""The version that this program writes."""

_CAMPAIGN = """
SELECT a.value_json FROM study_user_attributes a JOIN studies s ON s.study_id = a.study_id
WHERE s.study_name = :study AND a.key = 'campaign'
"""
_TABLE = "CREATE TABLE IF NOT EXISTS tune_vfl_ledger (version INTEGER NOT NULL, program TEXT NOT NULL)"


def refuse_newer(reader: Reader, place: str) -> int:
    """Return the version of a ledger's tables; 0 where there is no ledger yet.

    Raises:
        StudyError: for one that a later program has changed.
    """
    version, program = _held(reader)
    if version > SCHEMA:
        raise StudyError(
            f"the ledger {place} has schema {version}, written by tune-vfl {program}; this is tune-vfl {VERSION}, "
            f"which knows schemas up to {SCHEMA}: install tune-vfl {program} or later"
        )
    return version


def bring_up(connection: Connection) -> None:
    """Add what an older ledger, or none, lacks; what is there stays as it is."""
    from sqlalchemy import text

    connection.execute(text(lease.TABLE))
    connection.execute(text(_TABLE))
    row = connection.execute(text("SELECT version FROM tune_vfl_ledger")).one_or_none()
    values = {"version": SCHEMA, "program": VERSION}
    if row is None:
        connection.execute(text("INSERT INTO tune_vfl_ledger VALUES (:version, :program)"), values)
    elif row[0] < SCHEMA:
        connection.execute(text("UPDATE tune_vfl_ledger SET version = :version, program = :program"), values)


def campaign_of(connection: Connection, study: str) -> str:
    """Return the campaign that a study is a part of; empty for a lone one, and for one that is not there."""
    import sqlalchemy

    if "study_user_attributes" not in sqlalchemy.inspect(connection).get_table_names():
        return ""
    found = connection.execute(sqlalchemy.text(_CAMPAIGN), {"study": study}).scalar_one_or_none()
    return "" if found is None else str(json.loads(found))


def _held(reader: Reader) -> tuple[int, str]:
    if reader.has_table("tune_vfl_ledger"):
        for version, program in reader.rows("SELECT version, program FROM tune_vfl_ledger"):
            return int(version), str(program)
    return (1, "") if reader.has_table("studies") else (0, "")

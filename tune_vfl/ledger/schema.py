"""The tables of a ledger, the same in a sqlite file and on a PostgreSQL server.

A study of no campaign has an empty ``campaign``. A trial without an outcome is running. Nested data are JSON; values
used in conditions have columns of their own. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Double,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    insert,
    inspect,
    select,
)

from tune_vfl.errors import StudyError
from tune_vfl.machine import checked_json
from tune_vfl.machine.version import VERSION

SCHEMA = 4
"""The version of these tables. Earlier ones stood in Optuna's, and were in no release."""

_METADATA = MetaData()


class Json(TypeDecorator[Any]):
    """JSON as text with a checksum, the same in both databases; reading a damaged one raises DamagedValueError."""

    impl, cache_ok = Text, True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        """Serialize a value."""
        return None if value is None else checked_json.dump(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> Any:
        """Parse a value."""
        return None if value is None else checked_json.load(value)


class JsonText(TypeDecorator[str]):
    """A value of a :class:`Json` column as its text, which is compared with its checksum and not parsed."""

    impl, cache_ok = Text, True

    def process_result_value(self, value: str | None, _dialect: Dialect) -> str | None:
        """Verify a value."""
        return None if value is None else checked_json.verified(value)


version_table = Table(
    "tune_vfl_ledger", _METADATA, Column("version", Integer, nullable=False), Column("program", Text, nullable=False)
)

campaigns = Table(
    "campaigns",
    _METADATA,
    Column("name", Text, primary_key=True),
    Column("spec", Json, nullable=False),  # the user's last one
    Column("skipped", Json, nullable=False),
    Column("trials", Integer, nullable=False),  # the budget of all its studies
    Column("confirmation", Json),
)

studies = Table(
    "studies",
    _METADATA,
    Column("name", Text, primary_key=True),
    Column("campaign", Text, nullable=False, index=True),
    Column("place", Integer, nullable=False),  # in the order of the campaign
    Column("spec", Json, nullable=False),
    Column("cell", Json, nullable=False),
    Column("space", Json, nullable=False),
    Column("measure", Integer, nullable=False),
    Column("data", Text, nullable=False),  # the fingerprint of its rows
    Column("coverage", Json),
    Column("trials", Integer, nullable=False),  # the budget
    Column("reference_scores", Json),
    Column("reference_point", Json),
    Column("baseline", Json),
    Column("cost", Double),
    Column("confirmation", Json),
)

trials = Table(
    "trials",
    _METADATA,
    Column("study", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("params", Json, nullable=False),  # the searched ones, lists as texts
    Column("pack", Text, nullable=False),
    Column("session", Text, nullable=False),  # the run of a search that created it
    Column("asked", Double, nullable=False),
    Column("retry_of", Integer),
    Column("sampler", Json, nullable=False),  # the sampler's own data about it
    Column("outcome", Text),
    Column("utility", Double),
    Column("leakage", Double),
    Column("result", Json),  # the whole outcome
    Column("lost", Text),
    Column("finished", Double),
    Column("tuned", Json),  # the best attacker that was tuned against it
)

confirmations = Table(
    "confirmations",
    _METADATA,
    Column("study", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # of the trial; -1 is the undefended model
    Column("seed", Integer, primary_key=True, autoincrement=False),
    Column("record", Json, nullable=False),
)

leases = Table(
    "leases",
    _METADATA,
    Column("name", Text, primary_key=True),  # of a campaign, or a study of none
    Column("epoch", Integer, nullable=False),
    Column("holder", Text, nullable=False),
    Column("since", Text, nullable=False),
    Column("clock", Text, nullable=False),
    Column("expires", Double, nullable=False),
)


def version_of(connection: Connection, place: str) -> int:
    """Return the version of a ledger's tables; 0 where there is no ledger yet.

    Raises:
        StudyError: for tables of an earlier or a later program.
    """
    tables = inspect(connection).get_table_names()
    if version_table.name not in tables:
        if "alembic_version" in tables or studies.name in tables:
            raise _earlier(place)
        return 0
    version, program = connection.execute(select(version_table.c.version, version_table.c.program)).one()
    if version < SCHEMA:
        raise _earlier(place)
    if version > SCHEMA:
        raise StudyError(
            f"the ledger {place} has schema {version}, written by tune-vfl {program}; this is tune-vfl {VERSION}, "
            f"which knows schema {SCHEMA}: install tune-vfl {program} or later"
        )
    return int(version)


def make_tables(connection: Connection) -> None:
    """Create the tables and store their version."""
    _METADATA.create_all(connection)
    connection.execute(insert(version_table).values(version=SCHEMA, program=VERSION))


def _earlier(place: str) -> StudyError:
    return StudyError(
        f"the ledger {place} has Optuna's tables or those of a tune-vfl from before its first release, which are not "
        "read: move it away or name another place (TUNE_VFL_HOME, TUNE_VFL_STORAGE, --storage), and search again"
    )

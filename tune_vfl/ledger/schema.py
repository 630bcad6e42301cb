"""The tables of a ledger, the same in a sqlite file and on a PostgreSQL server.

A study of no campaign has an empty ``campaign``. A trial without an outcome is running. Nested data are JSON; values
used in conditions have columns of their own. Times are seconds since 1970.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Collection
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    insert,
    inspect,
    select,
    update,
)

from tune_vfl.errors import StudyError
from tune_vfl.machine import checked_json
from tune_vfl.machine.version import VERSION
from tune_vfl.records.rows import CampaignRow, SeedRow, StudyRow, TrialRow
from tune_vfl.spec import Strict

SCHEMA = 6
"""The version of these tables. Those before 4 stood in Optuna's, and were in no release."""

_STUDY_ID = "ALTER TABLE studies ADD COLUMN id TEXT"
# By the schema of an earlier program: what it lacks of this one's. The first statement changes the table of the
# version, and so waits for every transaction that has read it: nobody writes tables that it does not expect. Where
# that table lacks nothing, a column of it is renamed and named back.
_STEPS = {
    4: ("ALTER TABLE tune_vfl_ledger ADD COLUMN identity TEXT", "ALTER TABLE studies ADD COLUMN code TEXT", _STUDY_ID),
    5: (
        "ALTER TABLE tune_vfl_ledger RENAME COLUMN program TO written_by",
        "ALTER TABLE tune_vfl_ledger RENAME COLUMN written_by TO program",
        _STUDY_ID,
    ),
}

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


version_table = Table(
    "tune_vfl_ledger",
    _METADATA,
    Column("version", Integer, nullable=False),
    Column("program", Text, nullable=False),
    Column("identity", Text),  # drawn when the tables are made: no two ledgers have the same
)


def _table(name: str, row: type[Strict], key: Collection[str], *more: Column[Any]) -> Table:
    """Make a table of a class of rows: texts and numbers have columns of their type, all else is JSON.

    Args:
        name: the table's.
        row: the class; a field that may be None is a column that may be NULL.
        key: the fields of the primary key.
        more: columns that only the ledger has.
    """
    columns = []
    for field, info in row.model_fields.items():
        kinds = get_args(info.annotation)
        nullable = NoneType in kinds
        column = _TYPES.get(_plain(kinds[0] if nullable else info.annotation), Json)
        columns.append(Column(field, column, primary_key=field in key, nullable=nullable, autoincrement=False))
    return Table(name, _METADATA, *columns, *more)


def _plain(annotation: Any) -> Any:
    """Return the type that an annotation restricts."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    return str if get_origin(annotation) is Literal else annotation


_TYPES: dict[Any, type[Text | Integer | Double[float]]] = {str: Text, int: Integer, float: Double}

campaigns = _table("campaigns", CampaignRow, {"name"})

studies = _table(
    "studies",
    StudyRow,
    {"name"},
    Column("code", Json),  # digests of the source files that measured it, a machine's own
    Column("id", Text),  # drawn when the study is made, beside its name; all studies of a campaign have the same
)
Index("ix_studies_campaign", studies.c.campaign)

trials = _table(
    "trials",
    TrialRow,
    {"study", "number"},
    Column("session", Text, nullable=False),  # the run of a search that created it
    Column("outcome", Text),  # these three are the result's, for conditions
    Column("utility", Double),
    Column("leakage", Double),
)

confirmations = _table("confirmations", SeedRow, {"study", "number", "seed"})

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
    """Return the version of a ledger's tables, also of an earlier release's; 0 where there is no ledger yet.

    Raises:
        StudyError: for Optuna's tables, and for those of a later program.
    """
    held = inspect(connection)
    if not held.has_table(version_table.name):
        if held.has_table("alembic_version") or held.has_table(studies.name):
            raise _before_the_first(place)
        return 0
    version, program = connection.execute(select(version_table.c.version, version_table.c.program)).one()
    if version > SCHEMA:
        raise StudyError(
            f"the ledger {place} has schema {version}, written by tune-vfl {program}; this is tune-vfl {VERSION}, "
            f"which knows schema {SCHEMA}: install tune-vfl {program} or later. What was written before is kept"
        )
    if version < SCHEMA and version not in _STEPS:
        raise _before_the_first(place)
    return int(version)


def identity_of(connection: Connection, place: str) -> str:
    """Return what tells a ledger from every other one; empty where there is no ledger yet.

    Raises:
        StudyError: for tables of an earlier or a later program.
    """
    version = version_of(connection, place)
    if version in _STEPS:
        program = connection.execute(select(version_table.c.program)).scalar_one()
        raise StudyError(
            f"the ledger {place} is one of tune-vfl {program} (schema {version}): 'tune-vfl doctor --migrate' brings "
            f"it to schema {SCHEMA}, which {program} does not read; keep a copy before ('tune-vfl study backup FILE')"
        )
    if not version:
        return ""
    identity = str(connection.execute(select(version_table.c.identity)).scalar_one())
    if not re.fullmatch("[0-9a-f]{16}", identity):  # it is the name of a folder, in which files are made and deleted
        raise StudyError(f"the ledger {place} has an identity that no program made ({identity!r}): restore a backup")
    return identity


def make_tables(connection: Connection) -> str:
    """Create the tables, store their version, and return the ledger's identity."""
    _METADATA.create_all(connection)
    identity = new_identity()
    connection.execute(insert(version_table).values(version=SCHEMA, program=VERSION, identity=identity))
    return identity


def bring_up(connection: Connection, version: int) -> None:
    """Change the tables of an earlier release to this one's; nothing for this one's."""
    if version == SCHEMA:
        return
    for statement in _STEPS[version]:
        connection.exec_driver_sql(statement)
    connection.execute(update(version_table).values(version=SCHEMA, program=VERSION))
    connection.execute(update(version_table).where(version_table.c.identity.is_(None)).values(identity=new_identity()))
    for name, campaign in connection.execute(select(studies.c.name, studies.c.campaign)).all():
        of = studies.c.campaign == campaign if campaign else studies.c.name == name
        connection.execute(update(studies).where(of, studies.c.id.is_(None)).values(id=new_study_id()))


def new_identity() -> str:
    """Draw the identity of a ledger, which is the name of a folder too."""
    return secrets.token_hex(8)


def new_study_id() -> str:
    """Draw the id of a study: no two studies of whatever ledgers have the same."""
    return uuid.uuid4().hex


def _before_the_first(place: str) -> StudyError:
    return StudyError(
        f"the ledger {place} has Optuna's tables or those of a tune-vfl from before its first release, which are not "
        "read: move it away or name another place (TUNE_VFL_HOME, TUNE_VFL_STORAGE, --storage), and search again"
    )

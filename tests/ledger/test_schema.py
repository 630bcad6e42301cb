"""The tables of a ledger: made once, the same in a file and on a server, and those of another program are refused."""

import pytest
import sqlalchemy

from tune_vfl.errors import StudyError
from tune_vfl.ledger.schema import SCHEMA, make_tables, version_of, version_table
from tune_vfl.machine.version import VERSION


@pytest.fixture
def connection():
    with sqlalchemy.create_engine("sqlite://").begin() as connection:
        yield connection


def test_a_database_without_tables_is_no_ledger_and_gets_them_with_their_version(connection) -> None:
    assert version_of(connection, "place") == 0
    make_tables(connection)
    assert version_of(connection, "place") == SCHEMA
    assert connection.execute(sqlalchemy.select(version_table)).all() == [(SCHEMA, VERSION)]
    held = sqlalchemy.inspect(connection).get_table_names()
    assert sorted(held) == ["campaigns", "confirmations", "leases", "studies", "trials", "tune_vfl_ledger"]


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (SCHEMA + 1, rf"has schema {SCHEMA + 1}, written by tune-vfl 9\.9.*install tune-vfl 9\.9 or later"),
        (SCHEMA - 1, "the ledger place has .* from before its first release.*move it away.*search again"),
    ],
)
def test_another_schema_is_refused_with_what_to_do(connection, version: int, says: str) -> None:
    make_tables(connection)
    connection.execute(sqlalchemy.update(version_table).values(version=version, program="9.9"))
    with pytest.raises(StudyError, match=says):
        version_of(connection, "place")


@pytest.mark.parametrize("table", ["alembic_version", "studies"])
def test_tables_that_are_not_ours_are_not_taken_for_an_empty_database(connection, table: str) -> None:
    connection.exec_driver_sql(f"CREATE TABLE {table} (x INTEGER)")
    with pytest.raises(StudyError, match="has Optuna's tables or"):
        version_of(connection, "place")

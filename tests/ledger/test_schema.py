"""How old a ledger is, by its tables: of none, of before versions were written down, and of a later one."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy

from tune_vfl.errors import StudyError
from tune_vfl.ledger.schema import SCHEMA, bring_up, campaign_of, refuse_newer
from tune_vfl.machine.version import VERSION


class Tables:
    """A database of these tables, in which somebody has written a version."""

    def __init__(self, *tables: str, rows: Any = ()) -> None:
        self.tables, self.written = tables, rows

    def has_table(self, name: str) -> bool:
        return name in self.tables

    def rows(self, query: str, **values: Any) -> Any:
        return self.written


def test_a_database_without_tables_is_no_ledger_and_one_without_a_version_is_the_first() -> None:
    assert refuse_newer(Tables(), "place") == 0
    assert refuse_newer(Tables("studies"), "place") == 1
    assert refuse_newer(Tables("studies", "tune_vfl_ledger"), "place") == 1, "it was made and not yet written"
    assert refuse_newer(Tables("tune_vfl_ledger", rows=[(3, "0.1")]), "place") == 3


def test_what_a_ledger_lacks_is_added_once_and_an_older_version_is_lifted() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as connection:
        bring_up(connection)
        read = sqlalchemy.text("SELECT version, program FROM tune_vfl_ledger")
        assert connection.execute(read).all() == [(SCHEMA, VERSION)]
        for version, after in ((SCHEMA - 1, VERSION), (SCHEMA, "x"), (SCHEMA + 1, "x")):
            older = sqlalchemy.text("UPDATE tune_vfl_ledger SET version = :version, program = 'x'")
            connection.execute(older, {"version": version})
            bring_up(connection)
            kept = [(max(version, SCHEMA), after)]
            assert connection.execute(read).all() == kept, "a later one is left as it is"
        assert campaign_of(connection, "s") == "", "nothing is there yet"


def test_a_later_schema_is_refused_with_what_to_do() -> None:
    with pytest.raises(StudyError, match=rf"has schema {SCHEMA + 1}, written by tune-vfl 9\.9.*install tune-vfl 9\.9"):
        refuse_newer(Tables("tune_vfl_ledger", rows=[(SCHEMA + 1, "9.9")]), "place")
    assert refuse_newer(Tables("tune_vfl_ledger", rows=[(SCHEMA, "9.9")]), "place") == SCHEMA

"""The tables of a ledger: made once, the same in a file and on a server, and those of another program are refused."""

import json
import re
from pathlib import Path

import pytest
import sqlalchemy

from tests.conftest import Run
from tests.helpers.earlier import as_0_1_0
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.simulated import Simulation, simulate, simulated_cell, simulated_spec
from tune_vfl.errors import StudyError
from tune_vfl.ledger import schema
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.schema import SCHEMA, identity_of, make_tables, version_of, version_table
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.version import VERSION
from tune_vfl.outcome import read_outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.service.ledger_health import migrate
from tune_vfl.spaces.named import space_of


@pytest.fixture
def connection():
    with sqlalchemy.create_engine("sqlite://").begin() as connection:
        yield connection


def test_a_database_without_tables_is_no_ledger_and_gets_them_with_their_version(connection) -> None:
    assert version_of(connection, "place") == 0
    identity = make_tables(connection)
    assert version_of(connection, "place") == SCHEMA
    assert identity_of(connection, "place") == identity != ""
    assert connection.execute(sqlalchemy.select(version_table)).all() == [(SCHEMA, VERSION, identity)]
    held = sqlalchemy.inspect(connection).get_table_names()
    assert sorted(held) == ["campaigns", "confirmations", "leases", "studies", "trials", "tune_vfl_ledger"]


@pytest.mark.parametrize("identity", ["../../victim", "/tmp/x", "", None, "0123456789abcde/"])
def test_an_identity_that_no_program_made_is_refused(connection, identity) -> None:
    """It is the name of a folder, in which files are made and deleted."""
    make_tables(connection)
    connection.execute(sqlalchemy.update(version_table).values(identity=identity))
    with pytest.raises(StudyError, match="an identity that no program made"):
        identity_of(connection, "place")


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (SCHEMA + 1, rf"has schema {SCHEMA + 1}, written by tune-vfl 9\.9.*install tune-vfl 9\.9 or later"),
        (3, "the ledger place has .* from before its first release.*move it away.*search again"),
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


def study_in(url: str) -> Ledger:
    spec = simulated_spec("study")
    cell = simulated_cell(spec)
    plan = PlannedCampaign.of(PlannedStudy(spec, cell, space_of(spec, cell)))
    return Ledger.of_campaign(plan, storage_at(url), None)[0]


@pytest.fixture(params=["sqlite", "postgresql"])
def earlier(request: pytest.FixtureRequest, home: Path) -> str:
    """A ledger of 0.1.0 with a finished trial."""
    url = str(home / "ledger.db") if request.param == "sqlite" else request.getfixturevalue("postgres").fresh()
    ledger = study_in(url)
    outcome = simulate(Simulation(), ledger.cell, {"scale": 0.01})
    ledger.tell(ledger.begin({"scale": 0.01}), read_outcome(outcome.model_dump(mode="json")))
    ledger.close()
    as_0_1_0(storage_at(url))
    return url


def test_a_ledger_of_the_first_release_is_brought_over_on_demand_and_not_before(earlier: str, run: Run) -> None:
    for verb in (("status", "study"), ("studies",), ("resume", "study"), ("study", "rm", "study", "--yes"), ("clean",)):
        code, out, err = run(*verb, "--storage", earlier)
        assert "is one of tune-vfl 0.1.0 (schema 4): 'tune-vfl doctor --migrate' brings it to" in err
        assert (code, out) == (2, "") or verb == ("clean",)
    assert storage_at(earlier).version() == 4
    assert f"from schema 4 to {SCHEMA}" in migrate(earlier).detail
    assert f"schema {SCHEMA} already" in migrate(earlier).detail
    assert storage_at(earlier).identity() != ""
    code, out, _ = run("status", "study", "--storage", earlier, "--json")
    assert (code, json.loads(out)["trials"]["ok"]) == (0, 1)
    again = study_in(earlier)
    assert again.begin({"scale": 0.02}) == 1, "it is the same study, and goes on"
    assert re.fullmatch("[0-9a-f]{32}", again.study.id)
    assert reopened("study", earlier).study.id == again.study.id


def test_a_ledger_in_use_is_not_brought_over(earlier: str) -> None:
    migrate(earlier)
    with storage_at(earlier).lease("study"):
        as_0_1_0(storage_at(earlier))
        refused = migrate(earlier)
        assert (refused.status, storage_at(earlier).version()) == ("finding", 4)
        assert "study is being run; stop it" in refused.detail


def test_one_without_ids_of_studies_keeps_its_own_identity(earlier: str) -> None:
    migrate(earlier)
    place = storage_at(earlier)
    identity, study_id = place.identity(), reopened("study", earlier).study.id
    with place.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE studies DROP COLUMN id")
        connection.exec_driver_sql("UPDATE tune_vfl_ledger SET version = 5")
    place.close()
    with pytest.raises(StudyError, match=rf"is one of tune-vfl {VERSION} \(schema 5\): 'tune-vfl doctor --migrate'"):
        reopened("study", earlier)
    assert f"from schema 5 to {SCHEMA}" in migrate(earlier).detail
    assert storage_at(earlier).identity() == identity
    assert reopened("study", earlier).study.id not in ("", study_id)


@pytest.mark.parametrize("step", [0, 1])
def test_a_ledger_is_brought_over_whole_or_not_at_all(earlier: str, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    steps = [*schema._STEPS[4]]
    steps.insert(step, "ALTER TABLE studies ADD COLUMN name TEXT")  # which is there
    with monkeypatch.context() as broken:
        broken.setitem(schema._STEPS, 4, tuple(steps))
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            storage_at(earlier).migrate()
    assert storage_at(earlier).migrate() == 4


def test_a_backup_is_made_before_and_is_brought_over_too(home: Path, tmp_path: Path, run: Run) -> None:
    open_ledger().close()
    as_0_1_0(storage_at())
    code, out, _ = run("study", "backup", tmp_path / "before.db", "--json")
    assert (code, json.loads(out)["studies"]) == (0, 1)
    assert storage_at(str(tmp_path / "before.db")).version() == 4
    migrate(str(tmp_path / "before.db"))
    assert reopened("study", str(tmp_path / "before.db")).record().trials == ()
    assert storage_at().version() == 4


def test_a_study_is_read_and_packed_with_the_digests_of_its_code_and_without(home: Path, run: Run) -> None:
    open_ledger().close()
    place = storage_at()
    place.write(lambda connection: connection.execute(sqlalchemy.update(schema.studies).values(code={"a.py": "1"})))
    assert reopened("study").record().trials == ()
    assert run("study", "pack", "study", "-o", home / "study.pack")[0] == 0
    assert run("study", "unpack", home / "study.pack", "--name", "again")[0] == 0
    codes = place.read(lambda connection: connection.execute(sqlalchemy.select(schema.studies.c.code)).scalars().all())
    assert {str(code) for code in codes} == {"{'a.py': '1'}", "None"}

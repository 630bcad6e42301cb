"""Studies of one name, each in a ledger of its own, share an MLflow and an experiment, and never each other's runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run as MlflowRun

from tests.conftest import Run
from tests.helpers.ledgers import open_ledger
from tests.helpers.postgres import Postgres
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.ledger.reading import open_study
from tune_vfl.machine.places import sqlite_uri
from tune_vfl.outcome import Outcome
from tune_vfl.service.projecting import show_in_mlflow
from tune_vfl.service.repair import repair
from tune_vfl.tracking import attached, payload, store

Enter = Callable[[str], None]


@pytest.fixture(name="in_sqlite")
def _in_sqlite(tmp_path: Path, empty_database: Path) -> str:
    return sqlite_uri(Path(shutil.copy(empty_database, tmp_path / "shared.db")))


@pytest.fixture(name="tables", scope="module")
def _tables(postgres: Postgres) -> str:
    """The name of a PostgreSQL database with MLflow's tables, made once: making them takes seconds."""
    url = postgres.fresh()
    store.client(on_psycopg(url))
    postgres.end_sessions()  # a database is copied while nobody is connected to it
    return url.rpartition("/")[2]


@pytest.fixture(name="in_postgresql")
def _in_postgresql(postgres: Postgres, tables: str) -> str:
    return on_psycopg(postgres.fresh(tables))


def on_psycopg(url: str) -> str:
    """Name the driver: without a name SQLAlchemy takes psycopg2."""
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(name="database", params=["in_sqlite", "in_postgresql"])
def _database(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One MLflow of several people."""
    uri = str(request.getfixturevalue(request.param))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for name in ("attach_settings", "attach_summary"):  # these have tests of their own
        monkeypatch.setattr(attached, name, lambda *_: None)
    return uri


@pytest.fixture(name="enter", params=["homes", "ledgers of a home"])
def _enter(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Go on as one of two people, who have homes of their own or ledgers in one home."""

    def as_person(name: str) -> None:
        if request.param == "homes":
            monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / name))
        else:
            monkeypatch.setenv("TUNE_VFL_STORAGE", str(tmp_path / "home" / f"{name}.db"))

    return as_person


def record(*scales: float) -> str:
    """Search study ``s`` further, record it, and return its id."""
    ledger = open_ledger("s", budget={"trials": 9})
    for scale in scales:
        outcome = simulate(Simulation(), ledger.cell, {"scale": scale})
        ledger.tell(ledger.begin({"scale": scale}), Outcome.model_validate(outcome.model_dump()))
    ledger.close()
    show_in_mlflow(open_study("s"))
    return ledger.study.id


def client(database: str) -> Any:
    return mlflow.MlflowClient(tracking_uri=database)


def runs_in(database: str) -> list[MlflowRun]:
    experiment = client(database).get_experiment_by_name("s")
    return [] if experiment is None else list(client(database).search_runs([experiment.experiment_id]))


def seen(database: str, study_id: str) -> dict[str, Any]:
    """Everything that a reader sees of a study's runs, the summary among them."""
    return {
        r.info.run_id: (r.info.run_name, r.info.status, r.info.end_time, r.data.params, r.data.metrics, r.data.tags)
        for r in runs_in(database)
        if r.data.tags.get(payload.STUDY_ID) == study_id
    }


@pytest.mark.parametrize(("mine", "theirs"), [("ann", "bob"), ("bob", "ann")])
def test_two_studies_of_a_name_do_not_touch_each_other(
    database: str, enter: Enter, run: Run, mine: str, theirs: str
) -> None:
    ids = {}
    for name, scales in (("ann", (1e-4, 1e-3)), ("bob", (2e-4, 2e-3, 2e-2))):
        enter(name)
        ids[name] = record(*scales)
    assert ids["ann"] != ids["bob"]
    assert (len(seen(database, ids["ann"])), len(seen(database, ids["bob"]))) == (3, 4)
    before = seen(database, ids[theirs])
    enter(mine)
    record(5e-2)
    assert [check.status for check in repair(lambda _: None)] == ["ok"]
    mine_now = 4 + (mine == "bob")
    assert (len(seen(database, ids[mine])), seen(database, ids[theirs])) == (mine_now, before)
    code, out, _ = run("study", "rm", "s", "--yes", "--json")
    (told,) = json.loads(out)["removed"]
    assert (code, told["runs"]) == (0, mine_now)
    assert (seen(database, ids[mine]), seen(database, ids[theirs])) == ({}, before)
    enter(theirs)
    assert [check.status for check in repair(lambda _: None)] == ["ok"]
    assert (seen(database, ids[mine]), len(seen(database, ids[theirs]))) == ({}, len(before))
    assert run("study", "rm", "s", "--yes")[0] == 0
    assert client(database).get_experiment_by_name("s") is None, "nobody has a run in it any more"


def test_an_unpacked_copy_has_runs_of_its_own(database: str, enter: Enter, run: Run, tmp_path: Path) -> None:
    enter("ann")
    study_id = record(1e-4, 1e-3)
    before = seen(database, study_id)
    assert run("study", "pack", "s", "-o", tmp_path / "s.study")[0] == 0
    enter("bob")
    assert run("study", "unpack", tmp_path / "s.study")[0] == 0
    assert (len(runs_in(database)), seen(database, study_id)) == (6, before)
    assert run("study", "rm", "s", "--yes")[0] == 0
    assert (len(runs_in(database)), seen(database, study_id)) == (3, before)


def test_who_begins_an_experiment_describes_it_until_that_is_removed(database: str, enter: Enter, run: Run) -> None:
    def described() -> str:
        return str(client(database).get_experiment_by_name("s").tags[payload.NOTE])

    enter("ann")
    record(1e-4)
    first = described()
    enter("bob")
    record(1e-3)
    assert described() == first
    enter("ann")
    assert run("study", "rm", "s", "--yes")[0] == 0
    enter("bob")
    record()
    (summary,) = [r.info.run_id for r in runs_in(database) if payload.SUMMARY in r.data.tags]
    assert summary not in first
    assert summary in described()


def before_ids(database: str) -> None:
    """Leave the runs of study ``s`` as tune-vfl 0.1.0 did, without an id."""
    for each in runs_in(database):
        client(database).delete_tag(each.info.run_id, payload.STUDY_ID)


def test_runs_without_an_id_are_the_home_s_in_its_own_database_alone(
    database: str, home: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(1e-4, 1e-3)
    before_ids(database)
    record()
    assert len(runs_in(database)) == 6, "of a database that others may write, these stay"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    own = sqlite_uri(Path(shutil.copy(empty_database, home / "mlflow.db")))
    study_id = record()
    before_ids(own)
    assert record() == study_id
    assert len(runs_in(own)) == len(seen(own, study_id)) == 3

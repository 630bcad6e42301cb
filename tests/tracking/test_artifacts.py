"""A tracking database that a study file names leads to no server, and to no file but beside itself."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import Run

from tests.helpers.studies import STUDY_ID, made_up_study
from tune_vfl.errors import UnreachableError
from tune_vfl.machine.passwords import StudyUrl
from tune_vfl.machine.places import embedded_uri, resolve_uri, sqlite_uri
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.tracking import payload
from tune_vfl.tracking.mlflow import Recorder

REPORT = {"index.html": b"<html>", "data/front.csv": b"1,2"}


class Listener(BaseHTTPRequestHandler):
    """Keeps what it hears."""

    def __init__(self, heard: list[str], *arguments: object) -> None:
        self._heard = heard
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._heard.append(f"{self.command} {self.path} {self.headers}")
        self.send_response(200)
        self.end_headers()

    do_PUT = do_POST = do_GET  # noqa: N815 - as http.server names them

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(name="stranger")
def _stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """A server of somebody else's, and what it has heard."""
    heard: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Listener, heard))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "TOPSECRET")
    yield f"127.0.0.1:{server.server_port}", heard
    server.shutdown()
    server.server_close()


@pytest.fixture(name="database")
def _database(home: Path, tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database as it comes with a study file, beside which the working folder is another one."""
    (tmp_path / "came").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    database = tmp_path / "came" / "mine.db"
    database.write_bytes(empty_database.read_bytes())
    return database


def record(uri: str) -> None:
    study = made_up_study(4)
    study = replace(study, spec=study.spec.model_copy(update={"tracking": uri}))
    Recorder(study.name, uri, report=lambda: REPORT).sync(CampaignRecord.of(study))


def runs(database: Path) -> list[Run]:
    client = mlflow.MlflowClient(sqlite_uri(database))
    experiment = client.get_experiment_by_name("test-study")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def attached(database: Path, below: Path) -> list[str]:
    """Return the names of the summary's files, all of which lie below a folder."""
    (summary,) = [run for run in runs(database) if payload.SUMMARY in run.data.tags]
    client = mlflow.MlflowClient(sqlite_uri(database))
    assert Path(summary.info.artifact_uri.removeprefix("file://")).is_relative_to(below)
    report = client.list_artifacts(summary.info.run_id, "report")
    return [file.path for file in [*client.list_artifacts(summary.info.run_id), *report]]


ALL = ["filters.json", "report", "spec.yaml", "report/data", "report/index.html"]
PLACES = [
    "http://{}/steal",
    "http://{}/mlruns/test-study",
    "mlflow-artifacts://{}/steal",
    "file://{}/steal",
    "ftp://{}/steal",
    "file://{planted}",
    "file://{came}/mlruns/../../planted",
    "{planted}",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_place_of_an_experiment_hears_nothing(
    database: Path, stranger: tuple[str, list[str]], tmp_path: Path, place: str
) -> None:
    address, heard = stranger
    planted = place.format(address, planted=tmp_path / "planted", came=tmp_path / "came")
    mlflow.MlflowClient(sqlite_uri(database)).create_experiment("test-study", artifact_location=planted)
    if place.endswith("/mlruns/test-study"):  # as of a database that was moved: the experiment is written anew
        record(StudyUrl(sqlite_uri(database)))
        assert attached(database, tmp_path / "came" / "mlruns") == ALL
    else:
        with pytest.raises(UnreachableError, match=r"nothing was sent or written .* export MLFLOW_TRACKING_URI=sqlite"):
            record(StudyUrl(sqlite_uri(database)))
    assert heard == []
    assert not (tmp_path / "planted").exists()


PLANTED = {
    "a run": "UPDATE runs SET artifact_uri = 'http://HOST/steal'",
    "a trigger": (
        "CREATE TRIGGER planted AFTER INSERT ON runs BEGIN "
        "UPDATE runs SET artifact_uri = 'http://HOST/steal' WHERE run_uuid = new.run_uuid; END"
    ),
}


@pytest.mark.parametrize("statement", PLANTED.values(), ids=PLANTED)
def test_a_planted_place_of_a_run_hears_nothing(
    database: Path, stranger: tuple[str, list[str]], statement: str
) -> None:
    address, heard = stranger
    client = mlflow.MlflowClient(sqlite_uri(database))
    tags = {payload.SUMMARY: "true", payload.STUDY_ID: STUDY_ID}
    planted = client.create_run(client.create_experiment("test-study"), tags=tags)
    client.set_terminated(planted.info.run_id)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement.replace("HOST", address))
        connection.commit()
    with pytest.raises(UnreachableError, match="nothing was sent or written there"):
        record(StudyUrl(sqlite_uri(database)))
    assert heard == []


def test_a_link_that_came_along_is_not_followed(database: Path, tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir()
    (tmp_path / "came" / "mlruns").symlink_to(tmp_path / "planted")
    with pytest.raises(UnreachableError, match="nothing was sent or written there"):
        record(StudyUrl(sqlite_uri(database)))
    assert not list((tmp_path / "planted").iterdir())


def test_a_link_in_a_file_s_place_is_replaced(database: Path, tmp_path: Path) -> None:
    record(StudyUrl(sqlite_uri(database)))
    (tmp_path / "mine").write_text("mine")
    (written,) = (tmp_path / "came").rglob("filters.json")
    written.unlink()
    written.symlink_to(tmp_path / "mine")
    (summary,) = [run for run in runs(database) if payload.SUMMARY in run.data.tags]
    mlflow.MlflowClient(sqlite_uri(database)).delete_tag(summary.info.run_id, payload.DIGEST)
    record(StudyUrl(sqlite_uri(database)))
    assert (tmp_path / "mine").read_text() == "mine"
    assert written.is_file()
    assert not written.is_symlink()


def test_one_s_own_database_keeps_its_files_beside_itself(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(StudyUrl(sqlite_uri(database)))
    assert attached(database, tmp_path / "came" / "mlruns" / "test-study") == ALL
    assert len(list(tmp_path.rglob("config.json"))) > 0
    monkeypatch.chdir(tmp_path)
    before = runs(database)
    record(StudyUrl(sqlite_uri(database)))
    assert [run.info.run_id for run in runs(database)] == [run.info.run_id for run in before]
    (tmp_path / "came").rename(tmp_path / "moved")
    record(StudyUrl(sqlite_uri(tmp_path / "moved" / "mine.db")))
    assert attached(tmp_path / "moved" / "mine.db", tmp_path / "moved" / "mlruns") == ALL


def test_where_mlflow_itself_had_put_the_files_they_stay(database: Path, tmp_path: Path) -> None:
    mlflow.MlflowClient(sqlite_uri(database)).create_experiment("test-study")
    record(StudyUrl(sqlite_uri(database)))
    assert attached(database, tmp_path / "elsewhere" / "mlruns" / "1") == ALL


def test_a_database_that_the_environment_names_too_has_its_files_anywhere(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = sqlite_uri(database)
    mlflow.MlflowClient(uri).create_experiment("test-study", artifact_location=(tmp_path / "large").as_uri())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    record(StudyUrl(uri))
    assert attached(database, tmp_path / "large") == ALL


def test_who_names_a_store_stays_known(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(resolve_uri(StudyUrl("sqlite:///x.db")), StudyUrl)
    for own in (None, "sqlite:///x.db", embedded_uri()):
        assert not isinstance(resolve_uri(own), StudyUrl)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///x.db")
    assert not isinstance(resolve_uri(StudyUrl("sqlite:///x.db")), StudyUrl)
    assert isinstance(resolve_uri(StudyUrl("sqlite:///y.db")), StudyUrl)

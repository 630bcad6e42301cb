"""Homes whose path has characters that URLs use, and homes that were moved: nothing is made at another place."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import mlflow
import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.ledger.storage import SqliteFile, storage_at
from tune_vfl.machine.places import embedded_uri, sqlite_path, sqlite_uri
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.service.health import tracking
from tune_vfl.tracking.mlflow import Recorder
from tune_vfl.tracking.store import is_damaged, is_elsewhere, move_damaged_away

pytestmark = pytest.mark.usefixtures("home")

ODD = ["a#b", "a%20b", "a?b", "a b", "é", "100%", "a&b=c"]


@pytest.mark.parametrize("name", ODD)
def test_a_url_of_a_file_is_that_file_s(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "ledger.db"
    assert sqlite_path(sqlite_uri(path)) == path
    found = storage_at(sqlite_uri(path))
    assert isinstance(found, SqliteFile)
    assert found.path == path


def test_another_url_is_no_file_s() -> None:
    assert sqlite_path("sqlite:///:memory:") is None
    assert sqlite_path("postgresql://host/name") is None
    assert sqlite_path("sqlite:////t/x.db?timeout=3") == Path("/t/x.db")


def record_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Record the same study in a home, and return where MLflow keeps the summary's files."""
    monkeypatch.setenv("TUNE_VFL_HOME", str(home))
    ledger = open_ledger("s")
    if not ledger.trials():
        ledger.tell(ledger.begin({"scale": 1e-3}), simulate(Simulation(), ledger.cell, {"scale": 1e-3}))
    record = ledger.record()
    ledger.close()
    Recorder("s").sync(CampaignRecord.of(record))
    client = mlflow.MlflowClient(tracking_uri=embedded_uri())
    experiment = client.get_experiment_by_name("s")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 2, "a trial and the summary"
    places = [Path(url2pathname(urlsplit(run.info.artifact_uri).path)) for run in runs]
    (summary,) = [place for place in places if (place / "spec.yaml").is_file()]
    return summary


def test_an_odd_home_that_is_moved_is_used_where_it_is_and_nothing_is_made_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = tmp_path / "a#b%20c?d", tmp_path / "é 100%"
    assert record_in(old, monkeypatch).is_relative_to(old / "artifacts" / "s")
    assert tracking().status == "ok"
    assert not is_damaged(embedded_uri())
    old.rename(new)
    assert record_in(new, monkeypatch).is_relative_to(new / "artifacts" / "s")
    assert record_in(new, monkeypatch).is_relative_to(new / "artifacts" / "s")
    assert [p.name for p in tmp_path.iterdir()] == [new.name]
    assert move_damaged_away(embedded_uri()) is None


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")
        connection.commit()


def with_log_left(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE late (x)")
        connection.commit()
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{path}.copy{end}")
    for end in ("", "-wal"):
        Path(f"{path}.copy{end}").replace(f"{path}{end}")


OPENS: dict[str, Callable[[Path], object]] = {
    "whole": lambda path: None,
    "of another program": foreign,
    "empty": lambda path: path.write_bytes(b""),
    "read-only": lambda path: path.chmod(0o400),
    "with a log left behind": with_log_left,
    "with a log of rubbish": lambda path: Path(f"{path}-wal").write_bytes(b"rubbish" * 999),
    "of another MLflow": lambda path: execute(path, "UPDATE alembic_version SET version_num = 'x'"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
}
BROKEN: dict[str, Callable[[Path], object]] = {
    "no database": lambda path: path.write_bytes(b"hello" * 999),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:20_000]),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
}


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.fixture(name="database")
def _database(home: Path, empty_database: Path) -> Path:
    home.mkdir()
    return Path(shutil.copy(empty_database, home / "mlflow.db"))


@pytest.mark.parametrize("change", OPENS.values(), ids=OPENS)
def test_what_opens_is_never_moved_away(database: Path, change: Callable[[Path], object]) -> None:
    change(database)
    before = database.lstat()
    assert move_damaged_away(embedded_uri()) is None
    assert (database.lstat().st_ino, database.lstat().st_size) == (before.st_ino, before.st_size)
    assert not list(database.parent.glob("*damaged*"))


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_what_is_damaged_is_moved_with_its_log(database: Path, change: Callable[[Path], object]) -> None:
    change(database)
    Path(f"{database}-wal").write_bytes(b"a log")
    content = database.read_bytes()
    moved = move_damaged_away(embedded_uri())
    assert moved is not None
    assert (moved.read_bytes(), Path(f"{moved}-wal").read_bytes()) == (content, b"a log")
    assert sorted(p.name for p in database.parent.iterdir()) == [moved.name, f"{moved.name}-wal"]


def test_a_home_by_another_path_is_the_same_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "link"))
    (tmp_path / "home" / "artifacts" / "s").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert not is_elsewhere((tmp_path / "home/artifacts/s").as_uri(), embedded_uri(), "s")
    assert is_elsewhere((tmp_path / "other/artifacts/s").as_uri(), embedded_uri(), "s")
    assert not is_elsewhere("mlflow-artifacts:/3", "http://127.0.0.1:5000", "s")
    assert not is_elsewhere((tmp_path / "mlruns/3").as_uri(), embedded_uri(), "s"), "another program began it"

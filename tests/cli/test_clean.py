"""`clean` removes what nothing uses any more, says how much that was, and touches nothing else."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.helpers.ledgers import open_ledger
from tests.helpers.studies import STUDY_ID
from tune_vfl.data import cached
from tune_vfl.kernels import build
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine import leftovers, places
from tune_vfl.outcome import Outcome
from tune_vfl.service import cleaning
from tune_vfl.tracking import store


@pytest.fixture
def used(home: Path, empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and caches in use, without anything that could go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cleaning, "temporary_leftovers", list)
    monkeypatch.setattr(leftovers, "_oldest_python", lambda: float("inf"))
    monkeypatch.setattr(build, "_compiler", lambda: "c++")
    monkeypatch.setattr(build, "_key", lambda _compiler: "abc123")
    home.mkdir()
    shutil.copy(empty_database, home / "mlflow.db")
    open_ledger("stays").close()
    client = store.client(places.embedded_uri())
    for name in ("stays", "of a server's ledger"):
        location = store.artifact_folder(places.embedded_uri(), name)
        run = client.create_run(client.create_experiment(name, artifact_location=location))
        client.log_text(run.info.run_id, "kept", "kept.txt")
    for path in (
        "reports/stays/report.html",
        "reports/.hidden",
        "artifacts/stays/x/y.txt",
        f"studies/{STUDY_ID}/reports/stays/index.html",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("kept")
    for path in ("kernels/abc123.so", "mine.csv", "mnist/train.gz"):
        (places.user_cache() / path).parent.mkdir(parents=True, exist_ok=True)
        (places.user_cache() / path).write_text("kept")
    return home


def add_waste(home: Path) -> None:
    """Put there all kinds of what can go, of a thousand bytes each."""
    client = store.client(places.embedded_uri())
    location = store.artifact_folder(places.embedded_uri(), "gone")
    experiment = client.create_experiment("gone", artifact_location=location)
    client.log_text(client.create_run(experiment).info.run_id, "x" * 1000, "file.txt")
    client.delete_experiment(experiment)
    cached.folder().mkdir(parents=True, exist_ok=True)
    for path in (
        home / "artifacts" / "removed" / "run" / "file",
        home / ".mlflow-abc" / "mlflow.db",
        home / "reports" / ".stays-abc" / "report.html",
        home / "studies" / STUDY_ID / "reports" / "stays" / ".stays-abc" / "report.html",
        places.user_cache() / "kernels" / "fff000.so",
        cached.folder() / "mnist-1.safetensors",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)


def files(*roots: Path) -> set[Path]:
    beside = (".lock", "-wal", "-shm")
    return {p for root in roots for p in root.rglob("*") if p.is_file() and not p.name.endswith(beside)}


def cleaned(run: Run, *options: str) -> dict[str, Any]:
    code, out, _ = run("clean", "--json", *options)
    assert code == 0
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_what_nothing_uses_goes_and_all_else_stays(used: Path, tmp_path: Path, run: Run) -> None:
    before = files(tmp_path)
    assert cleaned(run)["removed"] == []
    add_waste(used)
    full = files(tmp_path)
    looked = cleaned(run, "--dry-run")
    assert (files(tmp_path), looked["dry_run"]) == (full, True)
    done = cleaned(run)
    assert files(tmp_path) == before
    kinds = {waste["kind"]: waste["bytes"] for waste in done["removed"]}
    assert kinds == {
        "temporary files": 1000,
        "cache": 1000,
        "1 deleted runs of MLflow": 1000,
        "artifacts of no study": 1000,
    } | {kind: size for kind, size in kinds.items() if kind == "free pages of a database"}
    assert (looked["bytes"], done["left"]) == (7000, [])
    client = store.client(places.embedded_uri())
    assert {e.name for e in client.search_experiments()} == {"Default", "stays", "of a server's ledger"}


def test_while_a_search_runs_what_it_writes_stays(used: Path, tmp_path: Path, run: Run) -> None:
    add_waste(used)
    with storage_at().lease("stays"):
        done = cleaned(run)
    assert {waste["kind"] for waste in done["removed"]} == {"temporary files", "cache"}
    assert done["left"] == ["ledger, MLflow and artifacts: stays is being run; clean again later"]
    assert (used / "artifacts" / "removed" / "run" / "file").exists()


def test_of_a_copied_home_the_other_ones_artifacts_stay(used: Path, tmp_path: Path, run: Run) -> None:
    client = store.client(places.embedded_uri())
    experiment = client.create_experiment("old", artifact_location=(tmp_path / "other" / "artifacts" / "old").as_uri())
    client.log_text(client.create_run(experiment).info.run_id, "theirs", "file.txt")
    client.delete_experiment(experiment)
    before = files(tmp_path / "other")
    assert len(before) == 1
    assert "outside the home" in cleaned(run)["left"][0]
    add_waste(used)
    assert "1 deleted runs of MLflow" in {waste["kind"] for waste in cleaned(run)["removed"]}
    assert files(tmp_path / "other") == before


def test_free_pages_are_given_back(used: Path, run: Run) -> None:
    ledger = open_ledger("long")
    ledger.tell(ledger.begin({"scale": 1e-3}), Outcome.failed("error", "x" * 100_000))
    ledger.close()
    assert run("study", "rm", "long", "--yes")[0] == 0
    with closing(sqlite3.connect(used / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (used / "ledger.db").stat().st_size
    (waste,) = [w for w in cleaned(run)["removed"] if w["path"] == str(used / "ledger.db")]
    assert waste["bytes"] > 90_000
    assert size - (used / "ledger.db").stat().st_size == waste["bytes"]


def test_without_a_home_there_is_nothing_to_do(
    home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cleaning, "temporary_leftovers", list)
    code, out, err = run("clean", "--dry-run")
    assert (code, out, err) == (0, "would remove 0 bytes\n", "")
    assert not home.exists()


def test_a_folder_of_copies_that_cannot_be_looked_at_is_left_and_said(
    used: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(_place: object) -> list[Path]:
        raise PermissionError(13, "Permission denied", str(used / "data"))

    monkeypatch.setattr(cleaning, "of_no_study", locked)
    (said,) = cleaned(run)["left"]
    assert "Permission denied" in said
    assert str(used / "data") in said

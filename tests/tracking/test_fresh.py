"""MLflow's empty database: made once a machine, and the same wherever it is copied to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tune_vfl.tracking import store
from tune_vfl.tracking.fresh import make_fresh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a machine's first database, where there is none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tune-vfl" / "mlflow"


def tables_of(database: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(database)) as connection:
        return sorted(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def test_a_copy_has_the_tables_of_the_first_and_nothing_of_its_place(cache, tmp_path, monkeypatch):
    there, here = tmp_path / "there", tmp_path / "here"
    for place in (there, here):
        place.mkdir()
        monkeypatch.chdir(place)
        client = store.client(f"sqlite:///{place / 'mlflow.db'}")
        [only] = client.search_experiments()
        assert (only.experiment_id, only.name) == ("0", "Default")
        assert only.artifact_location.startswith(str(place))
    [kept] = cache.iterdir()
    assert tables_of(here / "mlflow.db") == tables_of(there / "mlflow.db") == tables_of(kept)


def test_a_copy_takes_no_migration(cache, tmp_path, monkeypatch):
    make_fresh(tmp_path / "first.db")
    monkeypatch.setattr("mlflow.MlflowClient", None)
    make_fresh(tmp_path / "second.db")
    assert tables_of(tmp_path / "second.db") == tables_of(tmp_path / "first.db")


def test_one_that_is_damaged_is_made_anew(cache, tmp_path):
    make_fresh(tmp_path / "first.db")
    [kept] = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    make_fresh(tmp_path / "second.db")
    assert tables_of(tmp_path / "second.db") == tables_of(kept)
    # Each time MLflow's migrations write the same constraints in another order.
    assert dict(tables_of(kept)).keys() == dict(tables_of(tmp_path / "first.db")).keys()


def test_without_a_place_to_keep_it_each_is_made_by_itself(cache, tmp_path):
    cache.parent.parent.write_text("in the way")
    make_fresh(tmp_path / "mlflow.db")
    assert "runs" in dict(tables_of(tmp_path / "mlflow.db"))

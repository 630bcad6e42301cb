"""What an earlier version wrote is still read: specs, JSON, exported settings, the ledger, MLflow's database."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.ledgers import open_ledger
from tune_vfl import evaluate, load_config
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.config import save_config
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.ledger.campaigns import CampaignRecord
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.machine import places
from tune_vfl.spec import parse
from tune_vfl.spec.cell import MEASURE
from tune_vfl.tracking import attached, payload, store
from tune_vfl.tracking.mlflow import Recorder

SAMPLES = sorted(p for p in Path(__file__).parent.iterdir() if (p / "spec.yaml").is_file())
FORMER_HOME = "/srv/sample/home"

pytestmark = pytest.mark.parametrize("sample", SAMPLES, ids=[p.name for p in SAMPLES])


def told(sample: Path, name: str) -> Any:
    return json.loads((sample / name).read_text(encoding="utf-8"))


def keys(value: Any, place: str = "") -> set[str]:
    """The places of all keys, such as ``.attacks.norm.mean``; the items of a list share theirs."""
    if isinstance(value, dict):
        return {f"{place}.{key}" for key in value}.union(*(keys(v, f"{place}.{k}") for k, v in value.items()))
    if isinstance(value, list):
        return set().union(*(keys(item, place) for item in value))
    return set()


def still_told(before: Any, now: Any) -> bool:
    """Whether everything that was told is told again, word for word; what is told beside it is new."""
    if isinstance(before, dict):
        return all(key in now and still_told(value, now[key]) for key, value in before.items())
    if isinstance(before, list):
        return len(before) == len(now) and all(map(still_told, before, now))
    return bool(before == now)


@pytest.fixture
def old_home(sample: Path, home: Path) -> Path:
    """A copy of the home that the sample's version left, moved to where the test may write."""
    home.mkdir()
    for name in ("ledger.db", "mlflow.db"):
        (home / name).write_bytes(gzip.decompress((sample / f"{name}.gz").read_bytes()))
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:
        for table, column in (("runs", "artifact_uri"), ("experiments", "artifact_location")):
            database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (FORMER_HOME, str(home)))  # noqa: S608
    return home


def runs() -> dict[str, tuple[Any, ...]]:
    """Everything that MLflow tells of the study, by run."""
    client = store.client(places.embedded_uri())
    found = client.search_runs([client.get_experiment_by_name("sample").experiment_id], max_results=1000)
    return {r.info.run_id: (r.info.status, r.data.params, r.data.metrics, r.data.tags) for r in found}


def test_an_evaluation_has_every_key_it_had_and_the_numbers_whose_rule_is_the_same(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ATTACKS["pmc"], "draws", 1)  # of the known rows; two by now
    before = told(sample, "evaluation.json")
    spec = yaml.safe_load((sample / "spec.yaml").read_text(encoding="utf-8"))
    now = evaluate(
        spec["dataset"],
        defense="laplace",
        params={"scale": 0.01},
        attacks=spec["attacks"],
        seeds=spec["budget"]["seeds"],
        settings=["training.epochs=3"],
    )
    assert before["schema"] == now["schema"] == "tune-vfl/evaluation/1"
    assert keys(before) <= keys(json.loads(json.dumps(now)))
    assert now["utility"]["mean"] == pytest.approx(before["utility"]["mean"], abs=1e-3)  # of another processor's sums
    # Attacks read more moments now, and noise scores 1/2: what one reads of the same rows with the same rule stays.
    for variant, score in before["attacks"]["pmc"]["variants"].items():
        assert now["attacks"]["pmc"]["variants"][variant]["mean"] == pytest.approx(score["mean"], abs=1e-3)
    folded = before["attacks"]["norm"]["variants"]["norm"]["mean"]
    assert now["attacks"]["norm"]["variants"]["norm"]["mean"] <= folded + 1e-3


def test_an_exported_setting_builds_its_defense_and_is_written_as_it_was(sample: Path, tmp_path: Path) -> None:
    config = load_config(sample / "config.json")
    defense = config.build_defense(num_classes=2, embedding_dims=[10])
    assert defense.name == "laplace"
    assert defense.members[0].model_dump() == config.defense.params
    assert told(tmp_path, save_config(config, tmp_path / "again.json").name) == told(sample, "config.json")


@pytest.mark.usefixtures("old_home")
def test_a_spec_asks_for_the_cell_that_the_ledger_holds(sample: Path) -> None:
    spec = parse(yaml.safe_load((sample / "spec.yaml").read_text(encoding="utf-8")))
    ledger = Ledger.open("sample")
    assert ledger.spec == spec
    held, asked = ledger.cell, resolve(spec)
    assert [a.name for a in held.attacks] == [a.name for a in asked.attacks]
    rest = {"attacks"}  # which read gradients at more moments today
    assert held.model_dump(mode="json", exclude=rest) == asked.model_dump(mode="json", exclude=rest)


def test_status_and_frontier_tell_of_an_old_ledger_what_they_told(sample: Path, old_home: Path, run: Any) -> None:
    before, (code, out, _) = told(sample, "study.json"), run("status", "sample", "--json")
    before["mlflow"]["tracking_uri"] = before["mlflow"]["tracking_uri"].replace(FORMER_HOME, str(old_home))
    assert code == 0
    assert still_told(before, json.loads(out))
    assert before["trials"]["diverged"] == 1
    code, out, _ = run("frontier", "sample", "--json")
    assert code == 0
    assert still_told(before["front"], json.loads(out))
    assert {point["measure"] for point in json.loads(out)} == {1}


@pytest.mark.usefixtures("old_home")
def test_an_old_ledger_exports_and_reports_as_it_did(sample: Path, tmp_path: Path, run: Any) -> None:
    assert run("export", "sample", "--select", "leakage<=0.5", "-o", tmp_path / "config.json")[0] == 0
    assert told(tmp_path, "config.json") == told(sample, "config.json")
    assert run("report", "sample", "-o", tmp_path / "report")[0] == 0
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "diverged" in page
    assert "<dt>measure</dt><dd>1: every row was searched on</dd>" in page


@pytest.mark.usefixtures("old_home")
def test_an_old_study_is_not_mixed_with_what_is_measured_today(sample: Path, tmp_path: Path, run: Any) -> None:
    before = Ledger.open("sample").record()
    assert (before.measure, before.cell.rows) == (1, "all")
    spec = tmp_path / "spec.yaml"
    spec.write_bytes((sample / "spec.yaml").read_bytes())
    for verb in (("resume", "sample", "--trials", 6), ("resume", "sample"), ("search", spec, "--trials", 6)):
        code, out, err = run(*verb)
        assert (code, out) == (2, "")
        assert "study 'sample' has measure 1" in err
        assert f"measure {MEASURE}" in err
        assert "--name NEW" in err
    assert Ledger.open("sample").record() == before


@pytest.mark.usefixtures("old_home")
def test_an_old_study_is_not_compared_with_one_of_today(sample: Path, tmp_path: Path, run: Any) -> None:
    open_ledger("today").close()
    code, out, err = run("report", "sample", "today", "-o", tmp_path / "report")
    assert (code, out) == (2, "")
    assert f"sample has measure 1, today has measure {MEASURE}" in err
    assert not (tmp_path / "report").exists()


@pytest.mark.usefixtures("old_home")
def test_an_old_tracking_database_is_read_and_not_doubled(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The report is no part of the database.
    for name in ("attach_settings", "attach_summary"):
        monkeypatch.setattr(attached, name, lambda *_: None)
    record, before = Ledger.open("sample").record(), runs()
    numbers = [int(tags[payload.TRIAL]) for *_, tags in before.values() if payload.TRIAL in tags]
    assert sorted(numbers) == [t.number for t in record.trials]
    for _, _, metrics, tags in before.values():
        if payload.TRIAL in tags and (outcome := record.trials[int(tags[payload.TRIAL])].outcome).utility:
            assert metrics["utility"] == outcome.utility.mean
            assert metrics["leakage"] == outcome.leakage
    Recorder("sample").sync(CampaignRecord.of(record))
    assert runs() == before

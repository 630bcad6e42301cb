"""What release 0.1.0 wrote is read, says the same numbers, and is gone on with, by the verbs that a person types."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.postgres import binaries
from tune_vfl import load_config, load_study
from tune_vfl.execution import ray_session
from tune_vfl.records import measure
from tune_vfl.records.board import Entry
from tune_vfl.records.packed_file import read_packed
from tune_vfl.spec.cell import MEASURE

if TYPE_CHECKING:
    from tests.conftest import Run

    Ask = Callable[..., dict[str, Any]]

SAMPLES = Path(__file__).parent / "0.1.0"
MEASURED = {"number", "params", "utility", "leakage", "confirmed", "trials"}

pytestmark = pytest.mark.usefixtures("home")


@cache
def said() -> dict[str, Any]:
    """What 0.1.0 answered, by the command without ``--json``."""
    answers: dict[str, Any] = json.loads((SAMPLES / "said.json").read_text(encoding="utf-8"))
    return answers


def measured(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number that trainings gave, and whose it is, by its place in an answer."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "trials" and isinstance(inner, dict) and "running" in inner:
                # 0.1.0 called those of a search that was left running, which now are still to be started.
                rest = {kind: count for kind, count in inner.items() if kind not in ("running", "waiting")}
                yield f"{place}.{key}", {**rest, "owed": inner["running"] + inner["waiting"]}
            elif key in MEASURED:
                yield f"{place}.{key}", inner
            else:
                yield from measured(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from measured(inner, f"{place}[{position}]")


def assert_same(before: Any, now: Any) -> None:
    """Every number of an earlier answer stands in the place that it had; there may be more."""
    found = dict(measured(now))
    assert {place: found.get(place) for place, _ in measured(before)} == dict(measured(before))


def results_of_half() -> list[list[Any]]:
    """The trials that have a result."""
    trials = load_study("half").trials()
    columns = ["number", "defense.sigma", "training.lr", "utility", "leakage"]
    rows: list[list[Any]] = trials.loc[trials["outcome"] == "ok", columns].to_numpy().tolist()
    return rows


@pytest.fixture
def ask(run: Run) -> Ask:
    def answer(*words: object) -> dict[str, Any]:
        code, out, err = run(*words, "--json")
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    return answer


@pytest.fixture
def home(home: Path, empty_database: Path) -> Path:
    home.mkdir()
    shutil.copy(empty_database, home / "mlflow.db")
    return home


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger of 0.1.0, brought up to the tables of today."""
    if request.param == "sqlite":
        (home / "ledger.db").write_bytes(gzip.decompress((SAMPLES / "ledger.db.gz").read_bytes()))
        monkeypatch.setattr("platform.node", lambda: "lab")  # of a file that another machine leased nothing is known
    else:
        url, folder = request.getfixturevalue("postgres").fresh(), binaries()
        assert folder is not None
        command = [str(folder / "psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url]
        dump = gzip.decompress((SAMPLES / "ledger.sql.gz").read_bytes())
        subprocess.run(command, input=dump, check=True, capture_output=True)
        monkeypatch.setenv("TUNE_VFL_STORAGE", url)
    checks = {check["name"]: check for check in json.loads(run("doctor", "--migrate", "--json")[1])["checks"]}
    assert checks["migrate"]["status"] == checks["ledger"]["status"] == "ok", checks


@pytest.fixture
def no_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_session, "connect", lambda: pytest.fail("something is trained again"))


@pytest.mark.usefixtures("ledger", "no_trainings")
def test_a_ledger_says_what_it_said(ask: Ask) -> None:
    for words, before in said().items():
        if words.startswith("confirm"):
            continue  # see below: what is run today has another measure
        now = ask(*words.split())
        assert now["schema"] == before["schema"]
        assert_same(before, now)
    assert {study["study"]: study["state"] for study in ask("studies")["studies"]} == {
        "half": "stopped",
        "pair-breast_cancer-laplace": "finished",
        "pair-breast_cancer-max_norm": "finished",
    }


@pytest.mark.usefixtures("ledger", "no_trainings")
def test_of_a_ledger_every_verb_that_reads_makes_its_files(run: Run, ask: Ask, tmp_path: Path) -> None:
    assert json.loads(run("frontier", "pair", "--json")[1])
    for name, confirmed in (("pair", True), ("half", False)):
        assert run("report", name, "-o", tmp_path / name)[0] == 0
        page = (tmp_path / name / "index.html").read_text(encoding="utf-8")
        assert ("What stays" in page) is confirmed
    ask("export", "pair", "--select", "pair-breast_cancer-laplace#3", "-o", tmp_path / "config.json")
    before_it = load_config(SAMPLES / "config.json")
    assert before_it.version == "0.1.0"
    assert load_config(tmp_path / "config.json").model_copy(update={"version": "0.1.0"}) == before_it
    ask("study", "pack", "pair", "-o", tmp_path / "pair.study")
    packed, before = (read_packed(folder / "pair.study") for folder in (tmp_path, SAMPLES))
    assert packed.campaign == before.campaign


@pytest.mark.usefixtures("ledger", "no_trainings")
def test_nothing_is_added_to_a_study_of_an_earlier_measure(run: Run) -> None:
    for words in ("resume half --take-over", "confirm half", "confirm pair"):
        code, _, err = run(*words.split())
        assert code == 2
        assert f"has measure 5, and what is run today has measure {MEASURE}" in err
        assert "search its spec under another name: `tune-vfl search STUDY.yaml --name NEW`" in err


@pytest.mark.usefixtures("ledger", "here", "as_searched")
def test_a_killed_study_is_finished_and_confirmed(
    ask: Ask, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if its measure were today's: schemas and measures change in releases of their own."""
    monkeypatch.setattr(measure, "MEASURE", 5)
    before = said()["status half"]["trials"]
    assert before == {"ok": 3, "running": 1, "waiting": 4}
    kept = results_of_half()
    now = ask("resume", "half", "--take-over")["trials"]  # the machine that it was killed on is not this one
    assert now == {"ok": 8, "preempted": 1, "running": 0, "waiting": 0}
    assert results_of_half()[: before["ok"]] == kept
    confirmed = ask("confirm", "half", "--seeds", 1)
    assert {point["outcome"] for point in confirmed["points"]} == {"ok"}
    assert run("report", "half", "-o", tmp_path / "report")[0] == 0


@pytest.mark.usefixtures("no_trainings")
@pytest.mark.parametrize("name", ["pair", "half"])
def test_a_packed_one_says_what_it_said(name: str, ask: Ask) -> None:
    ask("study", "unpack", SAMPLES / f"{name}.study")
    assert ask("study", "unpack", SAMPLES / f"{name}.study")["did"] == "same"
    assert_same(said()[f"status {name}"], ask("status", name))


def test_an_exported_setting_builds_its_defense() -> None:
    config = load_config(SAMPLES / "config.json")
    defense = config.build_defense(num_classes=2, embedding_dims=[10])
    assert defense.members[0].model_dump() == {"scale": 0.1, "clip": None}


def test_entries_of_the_board_are_shown(ask: Ask, tmp_path: Path) -> None:
    ask("board", "write", "--board", SAMPLES / "board", "-o", tmp_path)
    with (tmp_path / "board.csv").open(encoding="utf-8", newline="") as file:
        shown = {(row["defense"], row["utility"], row["leakage"]) for row in csv.DictReader(file)}
    front = said()["status pair"]["front"]
    assert {(point["defense"], f"{point['utility']:.6g}", f"{point['leakage']:.6g}") for point in front} <= shown
    for path in (SAMPLES / "board").glob("*/*.json"):
        assert Entry.read(path).record.cell.defense == path.stem

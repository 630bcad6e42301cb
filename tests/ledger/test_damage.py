"""A damaged value is noticed, named with its row and study, stops no other study, and is freed to be measured again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.packing import planned
from tests.helpers.packing import run as run_trials
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.ledger.damage import DamagedError, find_damage
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.checked_json import DamagedValueError, dump, load
from tune_vfl.outcome import Outcome, read_outcome
from tune_vfl.service.ledger_health import examine_ledger
from tune_vfl.service.repair import repair
from tune_vfl.service.studies import everything

pytestmark = pytest.mark.usefixtures("two")


@pytest.fixture
def two(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two studies of three trials each, the first of which is going to be damaged."""
    monkeypatch.setattr("tune_vfl.tracking.mlflow.Recorder.rewrite", lambda *_: None)
    for name in ("bad", "good"):
        ledger = open_ledger(name, budget={"trials": 3})
        for scale in (1e-4, 1e-3, 1e-2):
            outcome = simulate(Simulation(), ledger.cell, {"scale": scale}).model_dump(mode="json")
            ledger.tell(ledger.begin({"scale": scale}), read_outcome(outcome))
        ledger.close()


def damage(home: Path, change: str, *values: Any) -> None:
    with closing(sqlite3.connect(home / "ledger.db")) as connection, connection:
        assert connection.execute(change, values).rowcount == 1


FLIPS = {
    "result": "UPDATE trials SET result = replace(result, '0.', '1.') WHERE study = 'bad' AND number = 1",
    "params": "UPDATE trials SET params = '{\"sca' WHERE study = 'bad' AND number = 1",
    "sampler": "UPDATE trials SET sampler = sampler || ' ' WHERE study = 'bad' AND number = 1",
    "utility": "UPDATE trials SET utility = utility + 0.001 WHERE study = 'bad' AND number = 1",
    "asked": "UPDATE trials SET asked = 1e18 WHERE study = 'bad' AND number = 1",
    "finished": "UPDATE trials SET finished = -1e308 WHERE study = 'bad' AND number = 1",
}


@pytest.mark.parametrize("column", FLIPS)
def test_a_damaged_trial_is_named_and_measured_again(column: str, home: Path, run: Run) -> None:
    damage(home, FLIPS[column])
    named = "result" if column == "utility" else column
    check = examine_ledger()
    assert (check.status, f"study 'bad', trial 1: {named}" in check.detail) == ("finding", True)
    (mended, untouched) = repair(lambda _said: None)
    assert mended.status == "finding"
    assert f"study 'bad', trial 1: {named}: lost" in mended.detail
    assert untouched.status == "ok"
    assert examine_ledger().status == "ok"
    trial = reopened("bad").trials()[1]
    again = column in {"result", "params", "utility"}
    assert (trial.outcome == "preempted") == again
    assert ("1 trials are owed: tune-vfl resume bad" in mended.detail) == again
    assert len(reopened("bad").owed_retries()) == (again and column != "params")
    for verb in ("status", "frontier"):
        assert run(verb, "bad", "--json")[0] == 0


@pytest.mark.parametrize("column", ["result", "asked"])
def test_one_bad_row_stops_no_other_study(column: str, home: Path, run: Run) -> None:
    before = {verb: run(verb, "good", "--json") for verb in ("status", "frontier")}
    damage(home, FLIPS[column])
    for verb in ("status", "frontier", "report"):
        code, out, err = run(verb, "bad")
        assert (code, out) == (1, "")
        assert f"study 'bad', trial 1: {column}. Other studies are not concerned." in err
        assert "doctor --repair" in err
    assert {verb: run(verb, "good", "--json") for verb in before} == before
    code, out, err = run("studies", "--json")
    assert (code, [study["study"] for study in json.loads(out)["studies"]]) == (1, ["good"])
    assert "study 'bad' cannot be read" in err
    assert run("study", "pack", "good", "-o", home.parent / "good.study")[0] == 0
    assert run("study", "rm", "bad", "--yes")[0] == 0, "what is damaged can be removed"
    assert run("studies")[0] == 0


def test_a_study_without_its_spec_is_said_to_be_lost(home: Path) -> None:
    damage(home, "UPDATE studies SET cell = 'x' || cell WHERE name = 'bad'")
    assert everything() == ["bad", "good"]
    for _ in range(2):
        (lost, untouched) = repair(lambda _said: None)
        assert (lost.status, untouched.status) == ("finding", "ok")
        assert "study 'bad': cell: lost, and nothing is without its cell: restore a backup, or remove it" in lost.detail


def test_what_is_measured_once_a_study_is_measured_again_together(home: Path) -> None:
    run_trials(planned(), storage_at())
    damage(home, "UPDATE studies SET baseline = replace(baseline, '0.', '1.') WHERE name = 'c-laplace'")
    with pytest.raises(DamagedError, match="study 'c-laplace': baseline"):
        open_study("c").record()
    (check,) = [check for check in repair(lambda _said: None) if check.name == "repair c"]
    assert "'tune-vfl resume c-laplace' and 'confirm' measure again" in check.detail
    reader = reopened("c-laplace")
    assert (reader.references, reader.reference_point, reader.baseline) == (None, None, None)


def test_a_server_finds_it_too(postgres: Any) -> None:
    place = storage_at(postgres.fresh())
    run_trials(planned(), place)
    assert place.read(find_damage) == []
    with place.transaction() as connection:
        connection.exec_driver_sql("UPDATE trials SET params = '{}' || params WHERE number = 0 AND study = 'c-laplace'")
    with pytest.raises(DamagedError, match="study 'c-laplace', trial 0: params"):
        open_study("c", place.url).record()


@pytest.mark.parametrize("value", [None, 1.5, "a b ", [], {"a": ["\t", {"b": None}]}])
def test_a_text_with_a_checksum_is_json(value: Any) -> None:
    assert json.loads(dump(value)) == load(dump(value)) == load(json.dumps(value)) == value


def test_any_flipped_bit_is_noticed() -> None:
    text = dump({"scale": 0.25}).encode()
    for bit in range(8 * len(text)):
        flipped = bytearray(text)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedValueError):
            load(flipped.decode("latin-1"))


def test_a_page_that_cannot_be_read_stops_its_studies_alone(home: Path, run: Run) -> None:
    """Trials so large that each has pages of its own, one of which is overwritten."""
    ledger = open_ledger("long")
    outcome = Outcome.failed("error", "x" * 40_000)
    ledger.tell(ledger.begin({"scale": 1e-3}), outcome)
    ledger.close()
    with closing(sqlite3.connect(home / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray((home / "ledger.db").read_bytes())
    page = content.index(b"x" * 4000) // 4096
    content[page * 4096 : page * 4096 + 4] = b"\xff" * 4  # where the next page of the text is
    (home / "ledger.db").write_bytes(content)
    assert run("status", "good")[0] == 0
    code, _, err = run("status", "long")
    assert (code, "restore" in err) != (0, False)
    assert examine_ledger().status == "finding"
    code, out, err = run("studies", "--json")
    assert (code, [study["study"] for study in json.loads(out)["studies"]]) == (1, ["bad", "good"])
    assert "study 'long' cannot be read" in err

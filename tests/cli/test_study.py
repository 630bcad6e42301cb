"""`study pack` and `study unpack`, typed: files, text, names, MLflow, and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.helpers.ledgers import open_ledger
from trainables.simulated import Simulation, simulate
from tune_vfl.machine import places
from tune_vfl.outcome import Outcome
from tune_vfl.tracking import store


@pytest.fixture
def packed(home, run, tmp_path):
    ledger = open_ledger("loans", budget={"trials": 3})
    for scale in (1e-4, 1e-3, 1e-2):
        outcome = simulate(Simulation(), ledger.cell, {"scale": scale}).model_dump()
        ledger.tell(ledger.begin({"scale": scale}), Outcome.model_validate(outcome))
    ledger.close()
    file = tmp_path / "loans.study"
    code, out, _ = run("study", "pack", "loans", "-o", file, "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": "tune-vfl/parcel/1",
        "study": "loans",
        "did": "packed",
        "trials": 3,
        "file": str(file),
    }
    return file


def test_every_verb_reads_what_was_unpacked_elsewhere(packed, run, tmp_path, monkeypatch):
    there = run("frontier", "loans", "--json")
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "elsewhere"))
    code, out, _ = run("study", "unpack", packed, "--json")
    assert code == 0
    assert (json.loads(out)["did"], json.loads(out)["trials"]["ok"]) == ("new", 3)
    assert run("frontier", "loans", "--json") == there
    assert run("export", "loans", "--select", "max-utility", "-o", tmp_path / "best.json")[0] == 0
    client = store.client(places.embedded_uri())
    runs = client.search_runs([client.get_experiment_by_name("loans").experiment_id])
    assert sorted(r.data.tags.get("tune_vfl.trial", "-") for r in runs) == ["-", "0", "1", "2"]
    code, out, _ = run("study", "unpack", packed)
    assert (code, "nothing was changed" in out) == (0, True)


def test_text_goes_through_a_pipe(packed, run, tmp_path, monkeypatch):
    code, text, _ = run("study", "pack", "loans", "-o", "-")
    assert code == 0
    (tmp_path / "mail").write_text(f"hello\n{text}\nbye\n")
    (tmp_path / "alone").write_text(text)
    assert run("study", "unpack", tmp_path / "alone")[0] == 0
    code, _, err = run("study", "unpack", tmp_path / "mail")
    assert (code, "is not a packed study" in err) == (2, True), "a mail is not a file: cut it out"


def test_what_is_refused_says_what_to_do(packed, run, tmp_path):
    code, _, err = run("study", "pack", "loan", "-o", tmp_path / "x")
    assert (code, "Did you mean 'loans'" in err) == (2, True)
    code, _, err = run("study", "unpack", packed, "--name", "../up")
    assert (code, "study" in err) == (2, True)
    code, _, err = run("study", "unpack", tmp_path / "nowhere")
    assert (code, "cannot be read" in err) == (2, True)
    code, _, err = run("study", "pack", "loans", "-o", tmp_path)
    assert (code, "is a folder" in err) == (2, True)
    assert not (tmp_path / "x").exists()

"""`study pack`, `unpack`, `rm` and `optuna`, typed: files, text, names, MLflow, reports, and what is refused."""

import json
import shutil

import optuna
import pytest

import reports.page
from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from tests.helpers.packing import run as run_trials
from tests.helpers.simulated import Simulation, simulate
from tune_vfl import load_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine import places
from tune_vfl.outcome import Outcome
from tune_vfl.service.projecting import show_in_mlflow
from tune_vfl.tracking import store
from tune_vfl.tracking.removal import deleted


@pytest.fixture
def home(home, empty_database, tmp_path):
    for place in (home, tmp_path / "elsewhere"):
        place.mkdir()
        shutil.copy(empty_database, place / "mlflow.db")
    return home


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


@pytest.fixture
def campaign(home):
    place = storage_at()
    run_trials(planned(), place)
    return place


def test_a_campaign_is_packed_and_read_elsewhere(campaign, run, tmp_path, monkeypatch):
    there = run("frontier", "c", "--json")
    file = tmp_path / "c.study"
    code, out, _ = run("study", "pack", "c", "-o", file, "--json")
    assert (code, json.loads(out)["studies"], json.loads(out)["trials"]) == (0, ["c-laplace", "c-gaussian"], 4)
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "elsewhere"))
    code, out, _ = run("study", "unpack", file, "--json")
    assert (code, json.loads(out)["campaign"], json.loads(out)["did"]) == (0, "c", "new")
    assert json.loads(out)["trials"]["ok"] == 4
    assert run("frontier", "c", "--json") == there
    assert runs_of("c") == 5, "the summary's and one a trial"
    code, out, _ = run("study", "unpack", file, "--name", "lab")
    assert (code, "campaign lab, 2 studies, is in the ledger now: 4 ok" in out) == (0, True)


def runs_of(experiment):
    client = store.client(places.embedded_uri())
    found = client.get_experiment_by_name(experiment)
    return 0 if found is None else len(client.search_runs([found.experiment_id]))


def files(home):
    beside = (".lock", "-wal", "-shm")
    return {p for p in home.rglob("*") if p.is_file() and not p.name.endswith(beside)}


def test_rm_asks_and_removes_what_shows_it_too(campaign, run, home, monkeypatch):
    before = files(home)
    show_in_mlflow(load_study("c"))
    assert len(files(home)) > len(before) + 10
    for name in ("c", "c+other", "other"):
        (home / "reports" / name).mkdir(parents=True)
    code, _, err = run("study", "rm", "c")
    assert (code, "no terminal to answer on: --yes" in err) == (2, True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    code, _, err = run("study", "rm", "c", "c-laplace")
    assert (code, "c: a campaign of 2 studies, 4 trials" in err, "nothing was removed" in err) == (1, True, True)
    assert (run("status", "c")[0], runs_of("c")) == (0, 5)
    code, out, err = run("study", "rm", "c", "--yes")
    assert code == 0
    assert "removed c: a campaign of 2 studies, 4 trials; 5 runs in MLflow, report" in out
    assert f"not removed: report {home / 'reports' / 'c+other'}: shows other studies too" in err
    assert sorted(p.name for p in (home / "reports").iterdir()) == ["c+other", "other"]
    assert (run("status", "c")[0], runs_of("c")) == (2, 0)
    assert files(home) == before, "no file is left"
    assert deleted(store.client(places.embedded_uri())) == ({}, [], 0), "MLflow has forgotten it"
    run_trials(planned(), campaign)
    show_in_mlflow(load_study("c"))
    assert runs_of("c") == 5, "its name is free in MLflow too"


@pytest.fixture
def as_person(home, monkeypatch):
    """Go on with the ledger of one of two people in one home; both have a study s. A page says whose it is."""
    who = []
    monkeypatch.setattr(reports.page, "report_files", lambda *_, **__: {"index.html": f"{who[-1]}'s".encode()})

    def go_on(name):
        who.append(name)
        monkeypatch.setenv("TUNE_VFL_STORAGE", str(home / f"{name}.db"))
        ledger = open_ledger("s")
        ledger.close()
        return home / "studies" / ledger.study.id / "reports" / "s" / "index.html"

    return go_on


def test_two_ledgers_of_a_home_have_a_report_each_of_one_name(as_person, run, home):
    shown, pages = home / "reports" / "s" / "index.html", {}
    for name in ("ann", "bob"):
        pages[name] = as_person(name)
        assert run("report", "s")[:2] == (0, f"{shown}\n")
        assert (shown.read_text(), pages[name].read_text()) == (f"{name}'s", f"{name}'s")
    as_person("ann")
    code, out, _ = run("study", "rm", "s", "--yes", "--json")
    assert (code, json.loads(out)["removed"][0]["reports"]) == (0, [str(pages["ann"].parent)])
    assert json.loads(out)["removed"][0]["left"] == [f"report {shown.parent}: is of another study of this name"]
    assert (list((home / "studies").rglob("*.html")), shown.read_text()) == ([pages["bob"]], "bob's")
    as_person("bob")
    code, out, _ = run("study", "rm", "s", "--yes", "--json")
    assert (code, json.loads(out)["removed"][0]["reports"]) == (0, [str(shown.parent)])
    assert (list((home / "reports").iterdir()), (home / "studies").exists()) == ([], False)


def test_a_report_of_the_first_release_becomes_the_study_s(as_person, run, home):
    page, before = as_person("ann"), home / "reports" / "s" / "notes.txt"
    before.parent.mkdir(parents=True)
    before.write_text("of 0.1.0")
    assert run("report", "s")[0] == 0
    assert (page.with_name("notes.txt").read_text(), before.read_text()) == ("of 0.1.0", "of 0.1.0")
    home.rename(home.with_name("moved"))
    assert (home.with_name("moved") / "reports" / "s" / "index.html").read_text() == "ann's"


def test_a_folder_of_reports_on_another_disk_has_the_links(as_person, run, home, tmp_path):
    page = as_person("ann")
    (tmp_path / "disk" / "far" / "reports").mkdir(parents=True)
    (home / "reports").symlink_to(tmp_path / "disk" / "far" / "reports")
    for _ in range(2):
        assert run("report", "s")[:2] == (0, f"{home / 'reports' / 's' / 'index.html'}\n")
    shutil.rmtree(home / "studies")
    assert run("study", "rm", "s", "--yes")[0] == 0
    assert (page.exists(), list((tmp_path / "disk" / "far" / "reports").iterdir())) == (False, [])


def test_where_no_link_can_be_made_the_page_is_the_one_in_the_study_s_folder(as_person, run, home, monkeypatch):
    page = as_person("ann")

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    assert run("report", "s")[:2] == (0, f"{page}\n")
    assert run("study", "rm", "s", "--yes")[0] == 0
    assert not page.exists()


def test_rm_of_a_part_leaves_the_campaign_and_runs_of_others(campaign, run, home):
    show_in_mlflow(load_study("c"))
    client = store.client(places.embedded_uri())
    client.create_run(client.get_experiment_by_name("c").experiment_id)
    code, _, err = run("study", "rm", "c-laplace", "c-gaussian", "--yes")
    assert (code, "all studies of campaign 'c'" in err) == (2, True)
    code, out, _ = run("study", "rm", "c-laplace", "--yes", "--json")
    assert code == 0
    (told,) = json.loads(out)["removed"]
    assert (told["name"], told["trials"], told["runs"], told["left"]) == ("c-laplace", 2, 2, [])
    assert runs_of("c") == 4
    assert deleted(client) == ({}, [], 0)
    assert run("frontier", "c", "--json")[0] == 0
    assert run("study", "rm", "c", "--yes")[0] == 0
    assert runs_of("c") == 1, "what others have put there stays"


def test_rm_goes_on_without_mlflow_and_says_so(campaign, run, home, monkeypatch):
    (home / "mlflow.db").write_text("this is no database")
    code, out, err = run("study", "rm", "c", "--yes")
    assert (code, "removed c" in out, "not removed: MLflow" in err) == (0, True, True)


def test_a_wrong_home_says_which(run, campaign, tmp_path, monkeypatch):
    code, _, err = run("status", "kdk-bank")
    assert (code, f"in the ledger {campaign.shown}, which holds 2 studies" in err) == (2, True)
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "nowhere"))
    for verb in (["status"], ["study", "rm"], ["study", "pack"], ["frontier"], ["report"], ["resume"]):
        code, _, err = run(*verb, "c")
        assert (code, f"{tmp_path / 'nowhere'}/ledger.db" in err) == (2, True), verb
    assert not (tmp_path / "nowhere").exists()


def test_optuna_reads_a_copy_of_a_campaign(campaign, run, tmp_path):
    file = tmp_path / "c.db"
    code, out, _ = run("optuna", "c", file, "--json")
    assert (code, json.loads(out)["trials"]) == (0, {"c-laplace": 2, "c-gaussian": 2})
    there = {trial.number: trial for trial in load_study("c").record().studies[0].trials}
    study = optuna.load_study(study_name="c-laplace", storage=f"sqlite:///{file}")
    assert study.metric_names == ["utility", "leakage"]
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    for trial in study.trials:
        held = there[trial.number]
        assert tuple(trial.values) == held.outcome.objectives
        assert trial.params == held.params
        assert trial.datetime_complete.astimezone() == held.finished
        assert trial.user_attrs["attack.norm"] == held.outcome.attacks["norm"].mean
    code, _, err = run("optuna", "c", file)
    assert (code, "is there already" in err) == (2, True)


def test_what_failed_is_a_failed_trial_of_optuna_and_what_runs_is_left_out(home, run, tmp_path):
    ledger = open_ledger("loans", budget={"trials": 3})
    ledger.tell(ledger.begin({"scale": 1e-3}), Outcome.failed("diverged", "NaN"))
    ledger.begin({"scale": 1e-2})
    ledger.close()
    assert run("optuna", "loans", tmp_path / "o.db")[0] == 0
    (trial,) = optuna.load_study(study_name="loans", storage=f"sqlite:///{tmp_path / 'o.db'}").trials
    assert (trial.state.name, trial.user_attrs["outcome"], trial.user_attrs["reason"]) == ("FAIL", "diverged", "NaN")

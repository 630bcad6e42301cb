"""The verbs on a study that was really searched: once for the module, small."""

import contextlib
import json
import shutil
import sqlite3

import pandas as pd
import pytest
import yaml

from tune_vfl.cli.main import main
from tune_vfl.service.studies import campaign_record

SPEC = {
    "study": "tiny",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm", "mean"],
    "training": {"epochs": 1},
    "budget": {"trials": 4, "seeds": 1},
    "sampler": "random",
    "resources": {"concurrency": 1},
}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A home with one finished study, and what the search printed."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("cli")
    (folder / "spec.yaml").write_text(yaml.safe_dump(SPEC), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_VFL_HOME", str(folder / "home"))
        for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI"):
            patch.delenv(name, raising=False)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(["search", str(folder / "spec.yaml"), "--json"])
    return folder, code, out.getvalue()


@pytest.fixture
def run(home, searched, run, monkeypatch):
    monkeypatch.setenv("TUNE_VFL_HOME", str(searched[0] / "home"))
    return run


def test_search_prints_one_line_of_the_study_schema(searched):
    _, code, out = searched
    assert code == 0
    assert out.count("\n") == 1
    study = json.loads(out)
    assert study["schema"] == "tune-vfl/study/1"
    assert study["trials"] == {"ok": 4, "running": 0, "waiting": 0}
    assert study["front"]
    assert {"number", "params", "utility", "leakage", "utility_std", "leakage_std", "attacks"} <= set(study["front"][0])
    assert {"utility", "leakage", "attacks"} <= set(study["baseline"])
    assert study["mlflow"]["experiment"] == "tiny"


def test_status_and_frontier_tell_the_same_as_search(searched, run):
    study = json.loads(searched[2])
    assert json.loads(run("status", "tiny", "--json")[1]) == {**study, "state": "finished"}
    assert json.loads(run("frontier", "tiny", "--format", "json")[1]) == study["front"]
    assert json.loads(run("frontier", "tiny", "--json")[1]) == study["front"]


def test_studies_lists_it(run):
    (listed,) = json.loads(run("studies", "--json")[1])["studies"]
    assert (listed["study"], listed["dataset"], listed["defense"]) == ("tiny", "breast_cancer", "laplace")
    assert (listed["state"], listed["owed"]) == ("finished", 0)


def test_tables_name_every_point_and_the_baseline(searched, run):
    study = json.loads(searched[2])
    for verb in ("status", "frontier"):
        code, out, _ = run(verb, "tiny")
        assert code == 0
        assert all(f"scale={p['params']['scale']:.4g}" in out for p in study["front"])
    assert "no defense" in run("status", "tiny")[1]


def test_frontier_files_hold_the_same_points(searched, run, tmp_path):
    front = json.loads(searched[2])["front"]
    for form, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        target = tmp_path / f"front.{form}"
        assert run("frontier", "tiny", "--format", form, "-o", target)[0] == 0
        frame = read(target)
        assert list(frame["number"]) == [p["number"] for p in front]
        assert frame["params.scale"].tolist() == pytest.approx([p["params"]["scale"] for p in front])
        assert frame["attack.norm"].tolist() == pytest.approx([p["attacks"]["norm"] for p in front])
        ratios = [p["published"]["norm"]["utility_per_leak"] for p in front]
        assert frame["utility_per_leak.norm"].tolist() == pytest.approx(ratios)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["front.csv", "front.parquet"]


def test_frontier_of_one_attack_is_that_attacks(searched, run):
    code, out, _ = run("frontier", "tiny", "--attack", "norm", "--format", "json")
    assert code == 0
    scores = {t.number: t.outcome.attacks["norm"] for t in campaign_record("tiny").studies[0].ok}
    for point in json.loads(out):
        floor = scores[point["number"]].floor
        wanted = max(0.0, (point["attacks"]["norm"] - floor) / (1 - floor))
        assert point["leakage"] == pytest.approx(wanted, abs=1e-9)
    code, _, err = run("frontier", "tiny", "--attack", "nrom")
    assert code == 2
    assert "'norm'" in err


@pytest.mark.parametrize(
    "arguments", [["--format", "parquet"], ["-o", "x.txt"], ["--format", "csv", "-o", "/proc/x/y.csv"]]
)
def test_frontier_refuses(run, arguments):
    code, out, err = run("frontier", "tiny", *arguments)
    assert code == 2
    assert out == ""
    assert err


def test_unknown_study_is_answered_with_the_nearest(run):
    code, _, err = run("status", "tinny")
    assert code == 2
    assert "'tiny'" in err


def test_export_is_what_load_config_reads(searched, run, tmp_path):
    from tune_vfl import load_config

    target = tmp_path / "deep" / "best.json"
    code, out, _ = run("export", "tiny", "--select", "max-utility", "-o", target, "--json")
    assert code == 0
    config = load_config(target)
    best = json.loads(searched[2])["front"][0]
    assert config.defense.params["scale"] == pytest.approx(best["params"]["scale"])
    assert json.loads(out) == json.loads(target.read_text())


def test_a_confirmation_is_shown_wherever_the_study_is(searched, run, tmp_path, monkeypatch):
    from tune_vfl import load_config

    shutil.copytree(searched[0] / "home", tmp_path / "home")  # the other tests tell of a study that is not confirmed
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "home"))
    code, out, err = run("confirm", "tiny", "--seeds", 2, "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["seeds"] == [1000, 1001]
    assert answer["baseline"]["seeds"] == 10
    assert all(p["outcome"] == "ok" and 0 <= p["stays"] <= 1 for p in answer["points"])
    stay = {p["number"]: p for p in answer["points"] if p["confirmed"]}
    front = json.loads(run("frontier", "tiny", "--json")[1])
    assert {p["number"] for p in front if p["confirmed"]} == {n for n, p in stay.items() if p["on_front"]}
    assert run("export", "tiny", "--select", "max-utility", "-o", tmp_path / "best.json")[0] == 0
    chosen = load_config(tmp_path / "best.json")
    assert chosen.trial in stay
    assert chosen.measured.utility == stay[chosen.trial]["utility"]
    assert chosen.measured.confirmed.stays == stay[chosen.trial]["stays"]
    assert run("report", "tiny", "-o", tmp_path / "report")[0] == 0
    assert "<h2>What stays</h2>" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    with contextlib.closing(sqlite3.connect(tmp_path / "home" / "mlflow.db")) as database:
        tagged = database.execute("SELECT count(*) FROM tags WHERE key = 'tune_vfl.confirmed' AND value = 'true'")
        assert tagged.fetchone() == (len(stay),)


def test_report_writes_a_page(run, tmp_path):
    code, out, _ = run("report", "tiny", "-o", tmp_path / "r", "--json")
    assert code == 0
    page = json.loads(out)["page"]
    assert page == str(tmp_path / "r" / "index.html")
    assert "tiny" in (tmp_path / "r" / "index.html").read_text(encoding="utf-8")
    (tmp_path / "file").write_text("x")
    assert run("report", "tiny", "-o", tmp_path / "file")[0] == 2
    assert run("report", "tiny", "nothing", "-o", tmp_path / "none")[0] == 2
    assert not (tmp_path / "none").exists()


def test_a_finished_study_is_answered_from_the_ledger(searched, run):
    code, out, _ = run("search", searched[0] / "spec.yaml", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(searched[2])
    code, out, _ = run("resume", "tiny", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(searched[2])


@pytest.mark.parametrize("verb", ["search", "validate"])
def test_a_name_taken_by_another_spec_is_refused_with_the_difference(searched, run, verb):
    code, out, err = run(verb, searched[0] / "spec.yaml", "--set", "training.epochs=2")
    assert code == 2
    assert out == ""
    assert "epochs" in err
    assert "--set study=NAME" in err


def test_validate_takes_the_spec_that_has_the_name_and_refuses_a_campaign_of_that_name(searched, run):
    spec = searched[0] / "spec.yaml"
    assert run("validate", spec, "--set", "budget.trials=9")[0] == 0, "more trials are the same study"
    code, _, err = run("validate", spec, "--set", "defense=[laplace, gaussian]", "--set", "budget.trials=8")
    assert code == 2
    assert "'tiny' is a study, and cannot be the name of a campaign too" in err


def test_resume_does_not_shrink_a_study(run):
    code, _, err = run("resume", "tiny", "--trials", 2)
    assert code == 2
    assert "4 finished" in err


def test_what_cannot_be_run_begins_nothing(run, tmp_path, monkeypatch):
    from tune_vfl.execution import ray_session

    monkeypatch.setattr(ray_session, "connect", lambda: pytest.fail("Ray was started"))
    (tmp_path / "list.yaml").write_text("[]", encoding="utf-8")
    asked = [("search", tmp_path / "no.yaml"), ("search", tmp_path / "list.yaml"), ("resume", "unknown")]
    assert [run(*words)[0] for words in [*asked, ("resume", "tiny", "--trials", 2)]] == [2] * 4


@pytest.mark.parametrize(
    ("trials", "code"),
    [
        ({"ok": 3}, 0),
        ({"ok": 1, "diverged": 2, "infeasible": 1, "preempted": 1}, 0),
        ({"ok": 9, "oom": 1}, 3),
        ({"timeout": 1}, 3),
    ],
)
def test_exit_code_of_a_search(trials, code):
    from tune_vfl.cli.search import exit_code

    assert exit_code({"trials": trials}) == code


def test_doctor_repair_rebuilds_mlflow_from_the_ledger(searched, run):
    from mlflow import MlflowClient

    database = searched[0] / "home" / "mlflow.db"
    database.unlink()
    code, out, _ = run("doctor", "--repair", "--json")
    checks = {c["name"]: c for c in json.loads(out)["checks"]}
    assert code in (0, 1)  # the machine may be short of something
    assert checks["repair tiny"]["status"] == checks["ledger"]["status"] == checks["mlflow"]["status"] == "ok"
    client = MlflowClient(f"sqlite:///{database}")
    (experiment,) = client.search_experiments(filter_string="name = 'tiny'")
    front = client.search_runs([experiment.experiment_id], filter_string="tags.`tune_vfl.pareto` = 'true'")
    told = {p["number"] for p in json.loads(searched[2])["front"]}
    assert {int(r.data.tags["tune_vfl.trial"]) for r in front} == told


def test_doctor_repair_replaces_a_damaged_mlflow_database_and_keeps_it(searched, run):
    database = searched[0] / "home" / "mlflow.db"
    database.write_bytes(b"no database at all" * 100)
    for rest in ("-wal", "-shm"):
        database.with_name(database.name + rest).unlink(missing_ok=True)
    code, _, err = run("doctor")
    assert code == 1
    assert "doctor --repair" in err
    code, out, _ = run("doctor", "--repair", "--json")
    assert code == 0
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert checks["mlflow"]["status"] == checks["repair tiny"]["status"] == "ok"
    assert "4 trials" in checks["repair tiny"]["detail"]
    [moved] = database.parent.glob("mlflow.db.damaged-*")
    assert moved.read_bytes().startswith(b"no database")


def test_a_damaged_ledger_is_named_as_such(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path))
    (tmp_path / "ledger.db").write_bytes(b"no database at all" * 100)
    (tmp_path / "mlflow.db").write_bytes(b"nor this one" * 100)
    code, _, err = run("studies")
    assert code == 4
    assert "is damaged: restore it from a backup" in err
    code, out, _ = run("doctor", "--repair", "--json")
    assert code == 4
    assert {"repair", "ledger", "mlflow"} <= {check["name"] for check in json.loads(out)["checks"]}
    # Without its ledger nothing could be rebuilt, so nothing is moved.
    assert (tmp_path / "mlflow.db").read_bytes().startswith(b"nor this one")


def test_a_home_that_is_a_file_is_answered_with_what_to_do(searched, run, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "taken"))
    code, out, err = run("search", str(searched[0] / "spec.yaml"))
    assert (code, out) == (4, "")
    assert "cannot be written" in err
    assert "TUNE_VFL_HOME" in err
    assert "unexpected" not in err


def test_doctor_wants_write_ahead_logging(tmp_path, monkeypatch):
    from tune_vfl.service import ledger_health

    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path))
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("CREATE TABLE notes (line TEXT)")
    connection.close()
    found = ledger_health.examine_ledger()
    assert found.status == "finding"
    assert "journal mode delete, not wal" in found.detail
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert ledger_health.examine_ledger().status == "ok"


def test_doctor_exit_codes():
    from tune_vfl.service.checks import Health
    from tune_vfl.service.health import exit_code

    fine, found, away = (Health("x", s, "") for s in ("ok", "finding", "unreachable"))
    assert exit_code([fine]) == 0
    assert exit_code([fine, found]) == 1
    assert exit_code([found, away, fine]) == 4


def test_doctor_says_when_the_tracking_server_is_away(monkeypatch):
    from tune_vfl.service import health

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert health.tracking().status == "unreachable"


def test_time_left_follows_the_pace_of_the_process_that_runs_it():
    import dataclasses
    from datetime import UTC, datetime, timedelta

    from tests.helpers.studies import made_up_study
    from tune_vfl.service.studies import eta_seconds

    now = datetime.now(UTC)
    record = made_up_study(10, failures=())
    # A pack of an earlier process, long ago, and one of this one, which took ten minutes; two such packs run.
    starts = [now - timedelta(hours=hours) for hours in [30] * 5 + [1] * 5]
    timed = record.trials[0].outcome.model_copy(update={"seconds": {"train": 100.0, "attack": 20.0}})
    pairs = zip(record.trials, starts, strict=True)
    trials = tuple(dataclasses.replace(t, started=s, finished=now, outcome=timed) for t, s in pairs)
    since = f"{now - timedelta(hours=2):%Y-%m-%d %H:%M:%S} UTC"
    left = dataclasses.replace(record, trials=trials, running=10, waiting=10)
    assert eta_seconds([left], since) == pytest.approx(120 / 2 * 20)
    assert eta_seconds([dataclasses.replace(left, running=0, waiting=0)], since) is None
    assert eta_seconds([dataclasses.replace(left, trials=trials[:5])], since) is None, "it has finished none yet"


def test_export_refuses_and_writes_nothing(run, tmp_path):
    for select in ("leakage<=-1", "__import__('os')"):
        code, out, err = run("export", "tiny", "--select", select, "-o", tmp_path / "x.json")
        assert (code, out) == (2, ""), err
        assert list(tmp_path.iterdir()) == []

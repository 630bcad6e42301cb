"""MLflow holds what the ledger holds: exactly, once, after crashes and absences too."""

import json
import math
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pkgutil import resolve_name

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.fronts import front_of, ranks_of
from tests.helpers.studies import made_up_study, made_up_trial
from tune_vfl.errors import UnreachableError
from tune_vfl.machine import places
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.tracking import attached, payload, store
from tune_vfl.tracking.mlflow import Recorder

FRONT = "tags.`tune_vfl.pareto` = 'true'"


@pytest.fixture
def home(home, monkeypatch, empty_database):
    home.mkdir()
    shutil.copy(empty_database, home / "mlflow.db")
    # What is attached has tests of its own; drawing it for every test here would take most of the time.
    for name in ("attach_settings", "attach_summary"):
        monkeypatch.setattr(attached, name, lambda *_: None)
    return home


def runs_of(study, query="", **kwargs):
    client = store.client(places.embedded_uri())
    experiment = client.get_experiment_by_name(study)
    return client.search_runs([experiment.experiment_id], query, max_results=5000, **kwargs)


def trial_runs(study="test-study"):
    return {int(r.data.tags[payload.TRIAL]): r for r in runs_of(study, f"tags.`{payload.TRIAL}` != ''")}


def on_front(record):
    return sorted(front_of(record))


def frozen(study="test-study"):
    """Everything that a reader of the experiment can see."""
    return {
        r.info.run_id: (r.info.status, r.info.start_time, r.info.end_time, r.data.params, r.data.metrics, r.data.tags)
        for r in runs_of(study)
    }


# What is sent


def test_a_trial_looks_as_the_interface_says():
    record = made_up_study()
    trial = record.ok[0]
    content = payload.trial_content(record.name, record.cell, trial)
    assert content.params == {
        "dataset": "breast_cancer",
        "defense": "laplace",
        "defense.scale": json.dumps(trial.params["scale"]),
        "model": "mlp",
        "seed_count": "3",
    }
    names = {"utility", "leakage", "utility.std", "leakage.std"}
    names |= {"attack.norm", "attack.norm.std", "attack.mean", "attack.mean.std"}
    assert set(content.metrics) == names
    assert content.metrics["leakage"] == trial.outcome.leakage
    assert content.metrics["attack.norm"] == trial.outcome.attacks["norm"].mean
    assert content.tags[payload.TRIAL] == str(trial.number)
    assert content.tags[payload.OUTCOME] == "ok"
    assert (content.status, content.finished - content.started) == ("FINISHED", 1000)


def test_a_confirmation_tags_the_runs_and_adds_what_was_measured_again(home):
    record = made_up_study()
    recorder = Recorder("test-study")
    recorder.sync(CampaignRecord.of(record))
    assert all(payload.CONFIRMED not in run.data.tags for run in trial_runs().values())
    confirmed = replace(record, confirmation=made_up_confirmation())
    recorder.sync(CampaignRecord.of(confirmed))
    runs = trial_runs()
    assert {n for n, run in runs.items() if run.data.tags[payload.CONFIRMED] == "true"} == {10}
    assert {run.data.tags[payload.CONFIRMED] for run in runs.values()} == {"true", "false"}
    measured = {k: v for k, v in runs[10].data.metrics.items() if k.startswith("confirmed.")}
    assert measured == {
        "confirmed.utility": 0.91,
        "confirmed.utility.low": 0.9,
        "confirmed.utility.high": 0.92,
        "confirmed.leakage": 0.3,
        "confirmed.leakage.low": 0.2,
        "confirmed.leakage.high": 0.4,
        "confirmed.stays": 0.91,
        "confirmed.seeds": 10.0,
    }
    assert not any(k.startswith("confirmed.") for k in runs[12].data.metrics), "a lost point has no numbers"
    assert runs[10].data.metrics["utility"] == record.trials[10].outcome.utility.mean, "the search's stay what they are"
    before = frozen()
    Recorder("test-study").sync(CampaignRecord.of(confirmed))
    assert frozen() == before


@pytest.mark.parametrize("kind", ["diverged", "infeasible", "timeout", "oom", "error"])
def test_a_trial_without_objectives_has_no_metrics_and_failed(kind):
    record = made_up_study()
    trial = made_up_trial(3, scale=0.1, outcome=Outcome.failed(kind, "why"))
    content = payload.trial_content(record.name, record.cell, trial)
    assert (content.metrics, content.status, content.tags[payload.TRIAL]) == ({}, "FAILED", "3")


def test_a_preempted_trial_is_no_trial():
    record = made_up_study()
    content = payload.trial_content(record.name, record.cell, record.trials[2])
    assert payload.TRIAL not in content.tags
    assert content.tags[payload.PREEMPTED] == "2"


def test_numbers_that_are_not_finite_are_never_sent():
    assert payload.finite({"a": 1.0, "b": math.nan, "c": math.inf, "d": None}) == {"a": 1.0}


# What MLflow holds afterwards


def test_one_run_a_trial_and_nothing_left_running(home):
    record = made_up_study()
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert sorted(trial_runs()) == [t.number for t in record.counted]
    assert {r.info.status for r in runs_of(record.name)} == {"FINISHED", "FAILED"}
    assert len(runs_of(record.name)) == len(record.trials) + 1
    for trial in record.ok:
        run = trial_runs()[trial.number]
        assert run.data.metrics["utility"] == trial.outcome.utility.mean
        assert run.info.start_time == payload.milliseconds(trial.started)
        assert run.data.tags[payload.RANK] == str(ranks_of(record)[trial.number])
        assert "mlflow.parentRunId" not in run.data.tags


def test_the_front_is_followed_during_the_search_but_seldom(home):
    record = made_up_study()
    recorder = Recorder(record.name)
    recorder.on_study(replace(record, trials=(), running=1))
    fronts = []
    for trial in record.ok[:3]:
        recorder._next_update_at *= trial != record.ok[2]
        recorder.on_trials(record.name, [trial])
        fronts.append(sorted(int(r.data.tags[payload.TRIAL]) for r in runs_of(record.name, FRONT)))
    wanted = [on_front(replace(record, trials=record.ok[:count])) for count in (1, 2, 3)]
    assert fronts == [wanted[0], wanted[0], wanted[2]]
    assert wanted[1] != wanted[0]


def test_what_a_trial_costs_to_write_does_not_grow_with_the_study(home, monkeypatch):
    record = made_up_study()
    recorder = Recorder(record.name)
    recorder.on_study(replace(record, trials=(), running=1))
    recorder.on_trials(record.name, record.ok[:1])
    recorder._next_update_at = math.inf  # no front is due

    def ranked(_: object) -> None:
        pytest.fail("all trials were ranked to write one")

    for name in ("Joint", "SettingsTable"):
        monkeypatch.setattr(f"tune_vfl.tracking.whole.{name}", ranked)
    calls = Counter()
    for name in ("search_runs", "create_run", "log_batch", "set_tag", "set_terminated"):
        monkeypatch.setattr(f"mlflow.MlflowClient.{name}", counted(f"mlflow.MlflowClient.{name}", calls))
    recorder.on_trials(record.name, record.ok[1:3])
    assert calls == {"create_run": 2, "log_batch": 2, "set_terminated": 2}
    assert len(trial_runs()) == 3


def test_many_runs_are_written_with_their_tags_at_once(home, monkeypatch):
    record, calls = made_up_study(60), Counter()
    for name in ("set_tag", "log_batch"):
        monkeypatch.setattr(f"mlflow.MlflowClient.{name}", counted(f"mlflow.MlflowClient.{name}", calls))
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert calls == {"log_batch": len(record.trials) + 2}, "one a trial, the summary's, and its hypervolume's"
    ranked = {n: int(r.data.tags[payload.RANK]) for n, r in trial_runs().items() if payload.RANK in r.data.tags}
    assert ranked == ranks_of(record)
    assert sorted(int(r.data.tags[payload.TRIAL]) for r in runs_of(record.name, FRONT)) == on_front(record)


def counted(path, calls):
    """A method that counts its calls."""
    real = resolve_name(path)

    def method(*given, **named):
        calls[real.__name__] += 1
        return real(*given, **named)

    return method


def test_trials_told_before_the_study_are_not_lost(home):
    record = made_up_study(4)
    recorder = Recorder(record.name)
    recorder.on_trials(record.name, [record.ok[-1]])
    recorder.on_study(replace(record, trials=record.trials[:-1]))
    assert sorted(trial_runs()) == [t.number for t in record.counted]


# Crashes


def _break(record):
    """Leave MLflow as a kill in the middle of recording does."""
    client = store.client(places.embedded_uri())
    experiment = client.create_experiment(record.name)
    client.create_run(experiment, tags={payload.TRIAL: str(record.ok[0].number)})
    half = client.create_run(experiment, tags={payload.TRIAL: str(record.ok[1].number)})
    client.log_param(half.info.run_id, "dataset", "breast_cancer")
    client.log_metric(half.info.run_id, "utility", 0.123)
    client.create_run(experiment, tags={payload.SUMMARY: "true"})
    return client, experiment


def test_half_written_runs_are_completed(home):
    record = made_up_study()
    _break(record)
    Recorder(record.name).sync(CampaignRecord.of(record))
    runs = trial_runs()
    assert sorted(runs) == [t.number for t in record.counted]
    assert len(runs_of(record.name)) == len(record.trials) + 1
    assert {r.info.status for r in runs_of(record.name)} == {"FINISHED", "FAILED"}
    for trial in record.ok[:2]:
        assert runs[trial.number].data.metrics == payload.measured(trial.outcome)


def test_of_a_run_written_twice_one_stays(home):
    record = made_up_study(4)
    Recorder(record.name).sync(CampaignRecord.of(record))
    client = store.client(places.embedded_uri())
    first = trial_runs()[record.ok[0].number]
    tags = {name: value for name, value in first.data.tags.items() if name.startswith("tune_vfl.")}
    again = client.create_run(first.info.experiment_id, start_time=first.info.start_time, tags=tags)
    client.set_terminated(again.info.run_id, "FINISHED")
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert len(runs_of(record.name)) == len(record.trials) + 1
    assert sorted(trial_runs()) == [t.number for t in record.counted]
    assert sorted(int(r.data.tags[payload.TRIAL]) for r in runs_of(record.name, FRONT)) == on_front(record)


def test_what_the_ledger_has_lost_or_measured_again_is_no_run_any_more(home):
    before = made_up_study(30, failures=())
    Recorder("test-study").sync(CampaignRecord.of(before))
    again = replace(before.trials[0], started=before.trials[0].started - timedelta(seconds=1), params={"scale": 0.9})
    record = replace(before, trials=(again, *before.trials[1:5]))
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert sorted(trial_runs()) == list(range(5))
    assert trial_runs()[0].data.params["defense.scale"] == "0.9"
    assert sorted(int(r.data.tags[payload.TRIAL]) for r in runs_of(record.name, FRONT)) == on_front(record)


def test_a_rewriting_puts_right_what_was_changed_by_hand(home):
    record = made_up_study(4)
    Recorder(record.name).sync(CampaignRecord.of(record))
    client = store.client(places.embedded_uri())
    changed = trial_runs()[record.ok[0].number].info
    own = client.create_run(changed.experiment_id, run_name="mine").info.run_id
    client.log_metric(changed.run_id, "utility", 0.123)
    Recorder(record.name).rewrite(CampaignRecord.of(record))
    assert len(runs_of(record.name)) == len(record.trials) + 2
    assert trial_runs()[record.ok[0].number].data.metrics == payload.measured(record.ok[0].outcome)
    assert client.get_run(own).info.lifecycle_stage == "active"


def test_what_a_user_added_stays(home):
    record = made_up_study()
    Recorder(record.name).sync(CampaignRecord.of(record))
    client = store.client(places.embedded_uri())
    experiment = client.get_experiment_by_name(record.name).experiment_id
    own = client.create_run(experiment, run_name="mine").info.run_id
    tagged = trial_runs()[record.ok[0].number].info.run_id
    client.set_tag(tagged, "verdict", "use this one")
    client.set_tag(tagged, payload.PARETO, "nonsense")
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert client.get_run(own).info.status == "RUNNING"
    assert client.get_run(tagged).data.tags["verdict"] == "use this one"
    assert client.get_run(tagged).data.tags[payload.PARETO] in {"true", "false"}


def test_runs_and_experiments_deleted_by_hand_come_back(home):
    record = made_up_study(4)
    Recorder(record.name).sync(CampaignRecord.of(record))
    client = store.client(places.embedded_uri())
    client.delete_run(trial_runs()[record.ok[0].number].info.run_id)
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert sorted(trial_runs()) == [t.number for t in record.counted]
    client.delete_experiment(client.get_experiment_by_name(record.name).experiment_id)
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert sorted(trial_runs()) == [t.number for t in record.counted]


def test_a_resumed_study_goes_on_where_it_was(home):
    record = made_up_study()
    Recorder(record.name).sync(CampaignRecord.of(replace(record, trials=record.trials[:10], waiting=17)))
    recorder = Recorder(record.name)
    recorder.sync(CampaignRecord.of(replace(record, trials=record.trials[:12], waiting=15)))
    for trial in record.trials[12:]:
        recorder.on_trials(record.name, [trial])
    recorder.on_study(record)
    recorder.on_end()
    assert sorted(trial_runs()) == [t.number for t in record.counted]
    assert sorted(int(r.data.tags[payload.TRIAL]) for r in runs_of(record.name, FRONT)) == on_front(record)


# Absences


@pytest.fixture
def away(monkeypatch):
    """A tracking server that does not answer until it is told to."""
    state = {"away": True}
    there = store.client

    def client(uri):
        if state["away"]:
            raise UnreachableError("away, for a test")
        return there(uri)

    monkeypatch.setattr(store, "client", client)
    return state


def test_trials_wait_while_the_server_is_away(home, away):
    record = made_up_study(6)
    recorder = Recorder(record.name)
    recorder.on_study(replace(record, trials=(), running=1))
    recorder.on_trials(record.name, record.trials[:-1])
    away["away"] = False
    recorder._retry_at = 0.0
    recorder.on_trials(record.name, record.trials[-1:])
    assert sorted(trial_runs()) == [t.number for t in record.counted]


def test_a_server_that_comes_back_for_the_end_gets_everything(home, away):
    record = made_up_study(6)
    recorder = Recorder(record.name)
    recorder.on_study(replace(record, trials=(), running=1))
    recorder.on_trials(record.name, record.trials)
    away["away"] = False
    recorder.on_study(record)
    recorder.on_end()
    live = frozen()
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert frozen() == live


def test_a_server_that_is_away_at_the_end_is_mended_from_the_ledger(home, away, caplog):
    record = made_up_study(6)
    away["away"] = False
    recorder = Recorder(record.name)
    recorder.on_study(replace(record, trials=(), running=1))
    recorder.on_trials(record.name, record.trials[:4])
    away["away"], recorder._runs = True, None
    recorder.on_trials(record.name, record.trials[4:])
    recorder.on_study(record)
    recorder.on_end()
    assert "'tune-vfl doctor --repair' writes what is missing" in caplog.text
    away["away"] = False
    recorder = Recorder(record.name)  # as the next run of the study does
    recorder.on_study(record)
    recorder.on_end()
    assert sorted(trial_runs()) == [t.number for t in record.counted]
    assert sorted(int(r.data.tags[payload.TRIAL]) for r in runs_of(record.name, FRONT)) == on_front(record)


def test_a_warning_does_not_show_the_password_of_a_server(home, away, caplog):
    record = made_up_study(3)
    Recorder(record.name, "http://me:secret@127.0.0.1:9").on_study(record)
    assert "could not be written" in caplog.text
    assert "secret" not in caplog.text


def test_a_sync_says_that_the_server_is_away_and_later_mends_all(home, away):
    record = made_up_study(6)
    with pytest.raises(UnreachableError, match="away"):
        Recorder(record.name).sync(CampaignRecord.of(record))
    away["away"] = False
    Recorder(record.name).sync(CampaignRecord.of(record))
    assert sorted(trial_runs()) == [t.number for t in record.counted]


@pytest.mark.parametrize("moment", ["create_run", "log_batch", "set_terminated"])
def test_a_database_that_fails_half_way_does_not_stop_a_search(home, monkeypatch, moment):
    record = made_up_study(6)
    recorder = Recorder(record.name)
    recorder.on_study(replace(record, trials=record.trials[:2], running=1))

    def fail(*_, **__):
        raise ConnectionError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(f"mlflow.MlflowClient.{moment}", fail)
        recorder.on_trials(record.name, record.trials[4:5])
    recorder.on_study(record)
    recorder.on_end()
    assert {r.info.status for r in runs_of(record.name)} == {"FINISHED", "FAILED"}
    assert sorted(trial_runs()) == [t.number for t in record.counted]


def test_a_dead_address_is_an_unreachable_error(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UnreachableError, match=r"127.0.0.1:9 does not answer"):
        store.client("http://127.0.0.1:9")


# Where it is


def test_which_mlflow_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert places.resolve_uri(None) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert places.resolve_uri(None) == "http://server:5000"
    assert places.resolve_uri("sqlite:///mine.db") == "sqlite:///mine.db"


def test_a_database_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    path = tmp_path / "new.db"
    with monkeypatch.context() as broken:
        broken.setattr("mlflow.MlflowClient.search_experiments", killed)
        with pytest.raises(KeyboardInterrupt):
            store.client(f"sqlite:///{path}")
    assert list(tmp_path.rglob("*.db")) == []


def test_the_database_lets_readers_in_while_it_is_written(empty_database):
    connection = sqlite3.connect(empty_database)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()

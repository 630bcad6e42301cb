"""Runs are written through MLflow's client: what a database holds in the end, and that a server holds the same."""

import json
import shutil
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.studies import STUDY_ID, made_up_study
from tune_vfl.cli.main import main
from tune_vfl.outcome import Outcome
from tune_vfl.tracking import attached, payload, store
from tune_vfl.tracking.mlflow import Recorder
from tune_vfl.tracking.payload import RunContent
from tune_vfl.tracking.runs import Change, Runs, in_parallel


@pytest.fixture
def database(tmp_path, empty_database):
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


def test_what_is_written_step_by_step_is_there_in_the_end(database):
    first, second = ("study", "trial", 0), ("study", "trial", 1)
    runs = Runs("study", database, STUDY_ID)
    runs.write(
        [
            (first, RunContent("one", {"a": "é"}, {"m": 0.5}, {"t": "x"}, "FAILED", 1000, 3000)),
            (second, RunContent("two", {"b": "2"}, {}, {"u": ""}, "FINISHED", 1001, 5000)),
        ]
    )
    about = RunContent("all", {"c": "3"}, {"count": 1.0}, {"w": "1"}, "FINISHED", 999, 5000)
    runs.write_summary(about)
    runs.update({first: Change({"t": "z"}, {"m": 0.25}), second: Change({"u": "", "v": "1"}, {})})
    runs.log_steps("h", [(k, k / 8, k) for k in range(5)])
    runs.write_summary(about._replace(metrics={"count": 2.0}, finished=7000))
    client = store.client(database)
    held = [client.get_run(runs.written[key].run_id) for key in (first, second)] + [client.get_run(runs.summary)]
    assert [(r.info.run_name, r.info.status, r.info.start_time, r.info.end_time) for r in held] == [
        ("one", "FAILED", 1000, 3000),
        ("two", "FINISHED", 1001, 5000),
        ("all", "FINISHED", 999, 7000),
    ]
    assert [(r.data.params, r.data.metrics) for r in held] == [
        ({"a": "é"}, {"m": 0.25}),
        ({"b": "2"}, {}),
        ({"c": "3"}, {"count": 2.0, "h": 0.5}),
    ]
    tags = [{k: v for k, v in r.data.tags.items() if len(k) == 1} for r in held]
    assert tags == [{"t": "z"}, {"u": "", "v": "1"}, {"w": "1"}]
    assert {r.data.tags[payload.STUDY_ID] for r in held} == {STUDY_ID}
    assert [m.value for m in client.get_metric_history(runs.summary, "h")] == [k / 8 for k in range(5)]
    assert runs.steps("h") == {k: k / 8 for k in range(5)}


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def server(database, tmp_path, monkeypatch):
    """An MLflow server over HTTP, in a thread of this process."""
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", database)
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", f"file://{tmp_path}/artifacts")
    monkeypatch.setenv("_MLFLOW_SERVER_SERVE_ARTIFACTS", "false")
    from mlflow.server import app, handlers

    monkeypatch.setattr(handlers, "_tracking_store", None)
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.mark.filterwarnings("ignore:starlette")
def test_a_server_holds_what_a_database_does_and_nothing_of_its_own_is_printed(
    server, database, monkeypatch, capfd, tmp_path, empty_database
):
    for name in ("attach_settings", "attach_summary"):
        monkeypatch.setattr(attached, name, lambda *_: None)
    record, other = made_up_study(6), f"sqlite:///{tmp_path}/other.db"
    shutil.copy(empty_database, tmp_path / "other.db")

    def visible(uri):
        client = store.client(uri)
        runs = client.search_runs([client.get_experiment_by_name(record.name).experiment_id], max_results=100)
        return {
            r.info.run_name: (r.info.status, r.info.end_time, r.data.params, r.data.metrics, r.data.tags) for r in runs
        }

    for uri in (server, other):
        recorder = Recorder(record.name, uri)
        recorder.on_trials(record.name, record.trials[:5])
        recorder.on_study(record)
        recorder.on_end()
        assert recorder.left() == ""
    assert visible(server) == visible(other)
    assert sum(run[4].get(payload.PARETO) == "true" for run in visible(server).values()) > 1
    assert capfd.readouterr().out == ""


@pytest.mark.filterwarnings("ignore:starlette")
def test_a_repair_over_a_server_prints_json_alone(server, home, monkeypatch, capfd):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", raising=False)
    ledger = open_ledger(defense={"name": "laplace"}, budget={"trials": 1})
    ledger.tell(ledger.begin({"scale": 0.01}), Outcome.failed("oom", "full"))
    ledger.close()
    main(["doctor", "--repair", "--json"])
    found = {check["name"]: check for check in json.loads(capfd.readouterr().out)["checks"]}
    assert found["repair study"]["detail"] == "0 orphaned trials recovered, MLflow holds 1 trials"


def test_work_in_parallel_ends_at_the_first_error():
    done = []

    def work(item):
        if item == 3:
            raise ValueError("three")
        done.append(item)

    with pytest.raises(ValueError, match="three"):
        in_parallel(work, range(1000))
    assert len(done) < 1000
    in_parallel(done.append, [])

"""What is written into MLflow's own tables is what its client writes, and a server gets the same run by run."""

from __future__ import annotations

import json
import shutil
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import sqlalchemy

from tests.helpers.ledgers import open_ledger
from tune_vfl.cli.main import main
from tune_vfl.outcome import Outcome
from tune_vfl.testing.studies import made_up_study
from tune_vfl.tracking import attached, payload, store
from tune_vfl.tracking.changes import Change, Held, Measurement
from tune_vfl.tracking.database import DatabaseWriter
from tune_vfl.tracking.mlflow import Recorder
from tune_vfl.tracking.server import ServerWriter, in_parallel

TABLES = ("runs", "tags", "params", "metrics", "latest_metrics")


@pytest.fixture
def database(tmp_path, empty_database):
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


def rows_of(uri):
    """Return every row of the tables that runs stand in, with the name of its run instead of its id."""
    with sqlalchemy.create_engine(uri).connect() as connection:
        metadata = sqlalchemy.MetaData()
        metadata.reflect(connection)
        runs = metadata.tables["runs"]
        names = dict(connection.execute(sqlalchemy.select(runs.c.run_uuid, runs.c.name)).all())
        found = {}
        for table in TABLES:
            rows = connection.execute(metadata.tables[table].select()).mappings().all()
            plain = [{**row, "run_uuid": names[row["run_uuid"]]} for row in rows]
            for row in plain:
                if "artifact_uri" in row:
                    row["artifact_uri"] = row["artifact_uri"].rpartition("/artifacts")[1:]
            found[table] = sorted(plain, key=str)
        others = {name: table for name, table in metadata.tables.items() if name not in TABLES}
        counts = {name: len(connection.execute(table.select()).all()) for name, table in others.items()}
    return found, counts


def history():
    """Return what is written of some runs, one step after the other."""
    first, second, third = Held(), Held(), Held()
    yield [
        Change(first, "one", 1000, {"a": "1"}, {"t": "x"}, [Measurement("m", 0.5, 2000)], ("FINISHED", 3000)),
        Change(second, "two", 1001, {}, {"t": "y", "u": ""}, [Measurement("h", k / 8, 2000 + k, k) for k in range(5)]),
        Change(third, "three", 1002, {"a": "é"}, {}, [], ("FAILED", 3001)),
    ]
    yield [
        Change(first, tags={"t": "z", "new": "1"}, measurements=[Measurement("m", 0.25, 4000)]),
        Change(second, params={"b": "2"}, measurements=[Measurement("h", 9.0, 1, 2)], ended=("FINISHED", 5000)),
    ]
    yield [Change(second, measurements=[Measurement("h", 0.75, 6000, 9)]), Change(third, ended=("FINISHED", 7000))]


def test_the_tables_hold_what_the_client_writes(database, tmp_path, empty_database):
    other = f"sqlite:///{tmp_path}/other.db"
    shutil.copy(empty_database, tmp_path / "other.db")
    for uri in (database, other):
        client = store.client(uri)
        experiment = client.get_experiment(client.create_experiment("study", artifact_location=f"file://{tmp_path}/a"))
        writer = (
            DatabaseWriter(uri, experiment.experiment_id, experiment.artifact_location)
            if uri == database
            else ServerWriter(client, experiment.experiment_id)
        )
        for changes in history():
            writer.write(changes)
    assert rows_of(database) == rows_of(other)


def test_a_batch_is_written_whole_or_not_at_all(database):
    writer = DatabaseWriter(database, "0", "file:///nowhere")
    bad = Change(Held(), "bad", 1, measurements=[Measurement("m", None, 1)])
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        writer.write([Change(Held(), "good", 1), bad])
    assert not any(rows_of(database)[0].values())


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

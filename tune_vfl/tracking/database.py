"""Writing into MLflow's own tables, as its client does, but many runs in one transaction.

The client takes three transactions a run, each with queries of its own: thirty times the work. The tables are those of
the one release of MLflow that this program is installed with; that a database has them is looked at when MLflow's
client opens it, and the tests hold every row that is written here against what the client writes.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Table

    from tune_vfl.tracking.changes import Change, Measurement

# How long another writer may keep the database locked, in seconds; MLflow itself waits as long.
_PATIENCE = 20


def is_database(uri: str) -> bool:
    """Say whether a tracking URI is a database that can be written to directly."""
    return uri.startswith(("sqlite:", "postgresql:", "postgresql+"))


class DatabaseWriter:
    """Writes runs into the database of a tracking store.

    Args:
        uri: the database, opened by MLflow's client before.
        experiment_id: where new runs are made.
        artifacts: where the experiment's artifacts are.
    """

    def __init__(self, uri: str, experiment_id: str, artifacts: str) -> None:
        import sqlalchemy

        waiting = {"timeout": _PATIENCE} if uri.startswith("sqlite:") else {}
        self._engine = sqlalchemy.create_engine(uri, connect_args=waiting)
        if waiting:
            sqlalchemy.event.listen(self._engine, "connect", _wait_less)
        self._experiment_id, self._artifacts = int(experiment_id), artifacts

    def write(self, changes: Sequence[Change]) -> None:
        """Write them in one transaction: all or nothing."""
        from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag

        new = [change for change in changes if change.started is not None]
        rows = [self._made(change) for change in new]
        measured = [(c.run.run_id, m) for c in changes for m in c.measurements]
        with self._engine.begin() as connection:
            _insert(connection, SqlRun.__table__, rows)
            params = [_named(c, k, v) for c in changes for k, v in c.params.items()]
            _insert(connection, SqlParam.__table__, params)
            names = [_named(c, "mlflow.runName", c.name) for c in new]
            tags = [_named(c, k, v) for c in changes for k, v in c.tags.items()]
            _upsert(connection, SqlTag.__table__, names + tags)
            _insert(connection, SqlMetric.__table__, [_metric(*found) for found in measured])
            latest = [_metric(*found) for found in _latest(measured)]
            _upsert(connection, SqlLatestMetric.__table__, latest, ("step", "timestamp", "value"))
            _end(connection, SqlRun.__table__, [c for c in changes if c.started is None and c.ended is not None])

    def _made(self, change: Change) -> dict[str, Any]:
        """Return the row of a new run, which gets its id here."""
        from mlflow.utils.uri import append_to_uri_path

        change.run.run_id = uuid.uuid4().hex
        change.run.artifacts = append_to_uri_path(self._artifacts, change.run.run_id, "artifacts")
        status, ended = change.ended or ("RUNNING", None)
        return {
            "run_uuid": change.run.run_id,
            "name": change.name,
            "source_type": "UNKNOWN",
            "source_name": "",
            "entry_point_name": "",
            "user_id": "unknown",
            "status": status,
            "start_time": change.started,
            "end_time": ended,
            "deleted_time": None,
            "source_version": "",
            "lifecycle_stage": "active",
            "artifact_uri": change.run.artifacts,
            "experiment_id": self._experiment_id,
        }


def _wait_less(connection: Any, _: object) -> None:
    """Let a commit not wait for the disk where that may cost the last ones alone, which the ledger has."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        connection.execute("PRAGMA synchronous=NORMAL")


def _named(change: Change, name: str, value: str) -> dict[str, str]:
    return {"run_uuid": change.run.run_id, "key": name, "value": value}


def _metric(run_id: str, found: Measurement) -> dict[str, Any]:
    moment = {"timestamp": found.at, "step": found.step}
    return {"run_uuid": run_id, "key": found.name, "value": found.value, **moment, "is_nan": False}


def _latest(measured: Sequence[tuple[str, Measurement]]) -> list[tuple[str, Measurement]]:
    """Return the latest measurement of each metric of each run: that of the largest step, moment and value."""
    found: dict[tuple[str, str], tuple[str, Measurement]] = {}
    for run_id, one in measured:
        held = found.get((run_id, one.name))
        if held is None or _order(one) > _order(held[1]):
            found[run_id, one.name] = run_id, one
    return list(found.values())


def _order(found: Measurement) -> tuple[int, int, float]:
    return found.step, found.at, found.value


def _insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; those that are there already stay as they are."""
    if rows:
        connection.execute(_inserting(connection, table).on_conflict_do_nothing(), list(rows))


def _upsert(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], order: tuple[str, ...] = ()
) -> None:
    """Insert rows, or replace those that are there already; with an order only such as come after them in it."""
    from sqlalchemy import tuple_

    if not rows:
        return
    insert, keys = _inserting(connection, table), list(table.primary_key.columns)
    new = {name: insert.excluded[name] for name in rows[0] if name not in {key.name for key in keys}}
    later = tuple_(*(new[name] for name in order)) > tuple_(*(table.c[name] for name in order)) if order else None
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=new, where=later), list(rows))


def _inserting(connection: Connection, table: Table) -> Any:
    """Return an insertion of the database's own dialect: how a conflict is met is in no common one."""
    from sqlalchemy.dialects import postgresql, sqlite

    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def _end(connection: Connection, table: Table, changes: Sequence[Change]) -> None:
    from sqlalchemy import bindparam

    if not changes:
        return
    ended = (
        table.update()
        .where(table.c.run_uuid == bindparam("run"))
        .values(status=bindparam("how"), end_time=bindparam("at"))
    )
    rows = [{"run": c.run.run_id, "how": c.ended[0], "at": c.ended[1]} for c in changes if c.ended is not None]
    connection.execute(ended, rows)

"""Writing to an MLflow server: it takes one run a request, so several requests are under way at a time."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mlflow import MlflowClient

    from tune_vfl.tracking.changes import Change

T = TypeVar("T")

_AT_ONCE = 8


class ServerWriter:
    """Writes runs through MLflow's client.

    Args:
        client: of the server.
        experiment_id: where new runs are made.
    """

    def __init__(self, client: MlflowClient, experiment_id: str) -> None:
        self._client, self._experiment_id = client, experiment_id

    def write(self, changes: Sequence[Change]) -> None:
        """Write them, each run in a few requests: a run may be half written when one fails."""
        in_parallel(self._write_one, changes)

    def _write_one(self, change: Change) -> None:
        from mlflow.entities import Metric, Param, RunTag

        run, tags = change.run, change.tags
        if change.started is not None:
            made = self._client.create_run(
                self._experiment_id, start_time=change.started, tags=tags, run_name=change.name
            )
            run.run_id, run.artifacts, tags = made.info.run_id, made.info.artifact_uri, {}
        if change.params or change.measurements or tags:
            self._client.log_batch(
                run.run_id,
                metrics=[Metric(m.name, m.value, m.at, m.step) for m in change.measurements],
                params=[Param(k, v) for k, v in change.params.items()],
                tags=[RunTag(k, v) for k, v in tags.items()],
            )
        if change.ended is not None:
            self._client.set_terminated(run.run_id, *change.ended)


def in_parallel(work: Callable[[T], None], items: Iterable[T]) -> None:
    """Do something with each item, several at a time; after an error no further one is begun, and it is raised.

    The threads end with the process, whatever they are doing: Ctrl-C does not wait for a server.
    """
    waiting: SimpleQueue[T] = SimpleQueue()
    for item in items:
        waiting.put(item)
    errors: list[Exception] = []

    def go() -> None:
        while not errors:
            try:
                work(waiting.get_nowait())
            except Empty:
                return
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=go, daemon=True) for _ in range(min(_AT_ONCE, waiting.qsize()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

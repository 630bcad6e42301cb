"""The content of MLflow runs, and changes of it, written through ``MlflowClient`` in parallel over HTTP."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mlflow import MlflowClient

T = TypeVar("T")

_AT_ONCE = 8


class Measurement(NamedTuple):
    """One value of a metric; ``at`` in milliseconds since 1970. Of two with one step MLflow shows the later."""

    name: str
    value: float
    at: int
    step: int = 0


@dataclass
class Held:
    """The content of one MLflow run, pending changes included; a run without an id is not created yet."""

    run_id: str = ""
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    status: str = "RUNNING"
    finished: int | None = None


@dataclass
class Change:
    """The pending changes of one run.

    Attributes:
        run: its content; a new one gets an id when it is written.
        name: that of a new run.
        started: a new run's start, in milliseconds since 1970; None where the run exists.
        params, tags: by name.
        measurements: in the order of writing.
        ended: status and time, where they change.
    """

    run: Held
    name: str = ""
    started: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    ended: tuple[str, int] | None = None


class RunWriter:
    """Writes runs of one experiment.

    Args:
        client: that of the tracking store.
        experiment_id: the experiment of new runs.
        at_once: the number of parallel calls; a sqlite file takes one.
    """

    def __init__(self, client: MlflowClient, experiment_id: str, at_once: int = _AT_ONCE) -> None:
        self._client, self._experiment_id, self._at_once = client, experiment_id, at_once

    def write(self, changes: Sequence[Change]) -> None:
        """Write the changes of each run in a few calls: a run may be half written when one fails."""
        in_parallel(self._write_one, changes, self._at_once)

    def _write_one(self, change: Change) -> None:
        run, tags = change.run, change.tags
        if change.started is not None:
            made = self._client.create_run(
                self._experiment_id, start_time=change.started, tags=tags, run_name=change.name
            )
            run.run_id, tags = made.info.run_id, {}
        if change.params or change.measurements or len(tags) > 1:
            self._log(change, tags)
        else:
            for name, value in tags.items():  # half the work of a batch
                self._client.set_tag(run.run_id, name, value)
        if change.ended is not None:
            self._client.set_terminated(run.run_id, *change.ended)

    def _log(self, change: Change, tags: dict[str, str]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        self._client.log_batch(
            change.run.run_id,
            metrics=[Metric(m.name, m.value, m.at, m.step) for m in change.measurements],
            params=[Param(name, value) for name, value in change.params.items()],
            tags=[RunTag(name, value) for name, value in tags.items()],
        )


def in_parallel(work: Callable[[T], None], items: Iterable[T], at_once: int = _AT_ONCE) -> None:
    """Call a function with each item, several in parallel; the first error stops new calls and is raised.

    The threads are daemons: Ctrl-C does not wait for a server.
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

    threads = [threading.Thread(target=go, daemon=True) for _ in range(min(at_once, waiting.qsize()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

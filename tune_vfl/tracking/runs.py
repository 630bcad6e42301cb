"""The runs of one study in an MLflow experiment: each is written once, when its trial has ended, and tagged later."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from tune_vfl.tracking import payload, store
from tune_vfl.tracking.artifacts import Artifacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tune_vfl.tracking.payload import RunContent

T = TypeVar("T")

RunKind = Literal["trial", "preempted", "summary"]
# A run's key: the study's name, the run's kind, and the trial's number; the summary is of the whole experiment.
Key = tuple[str, RunKind, int]
SUMMARY_KEY: Key = ("", "summary", 0)

# MLflow's limit for values: longer ones are cut here and complete in the ledger.
_LONGEST_PARAM, _LONGEST_TAG = 6000, 5000
# Calls at once over HTTP, and the number of runs after which the count of pending ones is updated.
_AT_ONCE, _TOGETHER = 8, 32


class Change(NamedTuple):
    """Tags and metrics that a run shall have; others that it has stay."""

    tags: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass
class WrittenRun:
    """A run that MLflow has whole.

    Attributes:
        run_id: MLflow's.
        started, finished: milliseconds since 1970, UTC.
        tags: those that it has, by name.
        metrics: the last value of each, by name.
    """

    run_id: str
    started: int
    finished: int
    tags: dict[str, str]
    metrics: dict[str, float]


class Runs:
    """The runs of one study or campaign in an experiment, which studies of other ledgers may share.

    What a killed process had half written is deleted at once. After a failed call, create a new object.

    Args:
        name: the experiment's: that of the campaign or of the single study.
        uri: the tracking URI.
        study_id: that of the study or the campaign; runs of others are left alone.

    Attributes:
        written: the runs that MLflow has, by key.
        experiment_id: MLflow's.
        tags: those of the experiment.
        waiting: the number of runs that a call still has to write; may be read from another thread.

    Raises:
        UnreachableError: when MLflow does not answer.
    """

    def __init__(self, name: str, uri: str, study_id: str) -> None:
        self._study_id, self._client = study_id, store.client(uri)
        self._artifacts = Artifacts(self._client, uri)
        # A sqlite file has one writer at a time.
        self._at_once = 1 if uri.startswith("sqlite") else _AT_ONCE
        experiment = self._open_experiment(name, uri)
        self.experiment_id = str(experiment.experiment_id)
        self.tags: dict[str, str] = dict(experiment.tags)
        self.waiting = 0
        self.written: dict[Key, WrittenRun] = {}
        self._each(self._client.delete_run, list(self._read(name, uri)))

    def _open_experiment(self, name: str, uri: str) -> Any:
        found = self._client.get_experiment_by_name(name)
        if found is not None and store.is_elsewhere(found.artifact_location, uri, name):
            # MLflow moves no artifacts: the experiment is written anew, at the home's present place.
            number = found.experiment_id
            self._client.rename_experiment(number, f"{name} (experiment {number}, at {found.artifact_location})")
            self._client.delete_experiment(number)
            found = None
        if found is None:
            made = self._client.create_experiment(name, artifact_location=store.artifact_folder(uri, name))
            return self._client.get_experiment(made)
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return found

    def _read(self, name: str, uri: str) -> Iterator[str]:
        """Note the study's runs, and yield the ids of those to be written anew.

        These are half written, are the second one of a trial, or have no id because tune-vfl 0.1.0 wrote them.
        """
        for run in store.pages(self._client.search_runs, experiment_ids=[self.experiment_id]):
            info, tags = run.info, run.data.tags
            if not payload.is_of(tags, self._study_id, uri):
                continue
            key = _key(tags, name)
            if key is None or key in self.written or info.status == "RUNNING" or payload.STUDY_ID not in tags:
                yield info.run_id
            else:
                known = info.start_time, info.end_time, dict(tags), dict(run.data.metrics)
                self.written[key] = WrittenRun(info.run_id, *known)

    def write(self, contents: Iterable[tuple[Key, RunContent]]) -> None:
        """Write new runs; each is among the written ones when it is whole."""
        self._each(self._write_one, list(contents))

    def _write_one(self, item: tuple[Key, RunContent]) -> None:
        key, content = item
        tags = {name: value[:_LONGEST_TAG] for name, value in content.tags.items()} | {payload.STUDY_ID: self._study_id}
        made = self._client.create_run(
            self.experiment_id, start_time=content.started, tags=tags, run_name=content.name
        ).info.run_id
        params = {name: value[:_LONGEST_PARAM] for name, value in content.params.items()}
        self._log(made, params=params, metrics=[(*one, content.finished, 0) for one in content.metrics.items()])
        self._client.set_terminated(made, content.status, content.finished)
        self.written[key] = WrittenRun(made, content.started, content.finished, tags, dict(content.metrics))

    def update(self, changes: Mapping[Key, Change]) -> None:
        """Add tags and metrics to written runs, where they differ from what these have."""
        wanted = {key: self._difference(key, change) for key, change in changes.items()}
        self._each(self._update_one, [(key, change) for key, change in wanted.items() if any(change)])

    def _difference(self, key: Key, change: Change) -> Change:
        run, tags = self.written[key], {name: value[:_LONGEST_TAG] for name, value in change.tags.items()}
        return Change(
            {name: value for name, value in tags.items() if run.tags.get(name) != value},
            {name: value for name, value in change.metrics.items() if run.metrics.get(name) != value},
        )

    def _update_one(self, item: tuple[Key, Change]) -> None:
        (key, (tags, metrics)), now = item, time.time_ns() // 1_000_000
        run = self.written[key]
        if metrics or len(tags) > 1:
            self._log(run.run_id, metrics=[(*one, now, 0) for one in metrics.items()], tags=tags)
        else:
            for name, value in tags.items():  # half the work of a batch
                self._client.set_tag(run.run_id, name, value)
        run.tags.update(tags)
        run.metrics.update(metrics)

    def write_summary(self, content: RunContent) -> None:
        """Write the summary run, or what has changed of it."""
        if SUMMARY_KEY not in self.written:
            self.write([(SUMMARY_KEY, content)])
            return
        self.update({SUMMARY_KEY: Change(content.tags, content.metrics)})
        run = self.written[SUMMARY_KEY]
        if run.finished != content.finished:
            self._client.set_terminated(run.run_id, content.status, content.finished)
            run.finished = content.finished

    def log_steps(self, name: str, steps: Sequence[tuple[int, float, int]]) -> None:
        """Log ``(step, value, milliseconds)`` of one metric of the summary run."""
        if steps:
            self._log(self.summary, metrics=[(name, value, at, step) for step, value, at in steps])

    def steps(self, name: str) -> dict[int, float]:
        """Return the values of one metric of the summary run by step, the latest where there are several."""
        history = self._client.get_metric_history(self.summary, name)
        return {m.step: m.value for m in sorted(history, key=lambda m: (m.step, m.timestamp))}

    def log_text(self, key: Key, text: str, name: str) -> None:
        """Store a text beside a run."""
        self._artifacts.log_text(self.written[key].run_id, text, name)

    def log_folder(self, folder: Path, name: str) -> None:
        """Store a folder beside the summary run."""
        self._artifacts.log_folder(self.summary, folder, name)

    @property
    def summary(self) -> str:
        """MLflow's id of the summary run, which must be written."""
        return self.written[SUMMARY_KEY].run_id

    def describe(self, tags: Mapping[str, str]) -> None:
        """Set tags of the experiment, unless another study that shares it describes it."""
        if self.tags.get(payload.STUDY_ID) not in (None, "", self._study_id):
            return
        for name, value in {**tags, payload.STUDY_ID: self._study_id}.items():
            if self.tags.get(name) != value:
                self._client.set_experiment_tag(self.experiment_id, name, value[:_LONGEST_TAG])
                self.tags[name] = value

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete written runs; MLflow keeps them as deleted."""
        self._each(self._client.delete_run, [self.written.pop(key).run_id for key in list(keys)])

    def _log(
        self,
        run_id: str,
        *,
        metrics: Iterable[tuple[str, float, int, int]],
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        self._client.log_batch(
            run_id,
            metrics=[Metric(*one) for one in metrics],
            params=[Param(*one) for one in (params or {}).items()],
            tags=[RunTag(*one) for one in (tags or {}).items()],
        )

    def _each(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        self.waiting = len(items)
        for begin in range(0, len(items), _TOGETHER):
            in_parallel(work, items[begin : begin + _TOGETHER], self._at_once)
            self.waiting = max(0, len(items) - begin - _TOGETHER)


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


def _key(tags: Mapping[str, str], experiment: str) -> Key | None:
    kinds: tuple[tuple[RunKind, str], ...] = (("trial", payload.TRIAL), ("preempted", payload.PREEMPTED))
    for kind, name in kinds:
        if tags.get(name, "").isdecimal():
            return tags.get(payload.STUDY, experiment), kind, int(tags[name])
    return SUMMARY_KEY if tags.get(payload.SUMMARY) == "true" else None

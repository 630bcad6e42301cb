"""The runs of one MLflow experiment: read their content and write only differences.

All reading and writing of runs is done here; :mod:`tune_vfl.tracking.payload` computes their content.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tune_vfl.tracking import payload, store
from tune_vfl.tracking.artifacts import Artifacts
from tune_vfl.tracking.payload import RunContent
from tune_vfl.tracking.writing import Change, Held, Measurement, RunWriter

RunKind = Literal["trial", "preempted", "summary"]
# A run's key: the study's name, the run's kind, and the trial's number; the summary is of the whole experiment.
Key = tuple[str, RunKind, int]
SUMMARY_KEY: Key = ("", "summary", 0)

# MLflow's limit for values: longer ones are cut here and complete in the ledger.
_LONGEST_PARAM, _LONGEST_TAG = 6000, 5000
# The number of runs in one batch, after which the count of pending runs is updated.
_TOGETHER = 32


class Runs:
    """The runs of one study or campaign in an experiment, which other studies of the same name may share.

    Changes are queued until :meth:`flush`. After a failed flush, create a new object, which reads the runs again.

    Args:
        name: the experiment's: that of a campaign or of a single study.
        uri: the tracking URI.
        study_id: that of the study or the campaign; runs of others are left alone.

    Attributes:
        held: the content of each run, pending changes included, by key.
        tags: those of the experiment.

    Raises:
        UnreachableError: when MLflow does not answer.
    """

    def __init__(self, name: str, uri: str, study_id: str) -> None:
        self._name, self._uri, self._study_id, self._client = name, uri, study_id, store.client(uri)
        self._artifacts = Artifacts(self._client, uri)
        experiment = self._open_experiment(name, uri)
        self.experiment_id = str(experiment.experiment_id)
        self.tags: dict[str, str] = dict(experiment.tags)
        # A sqlite file has one writer at a time.
        at_once = {"at_once": 1} if uri.startswith("sqlite") else {}
        self._writer = RunWriter(self._client, self.experiment_id, **at_once)
        self.held: dict[Key, Held] = {}
        self._doubles: list[Held] = []
        self._changes: dict[int, Change] = {}
        self.load()

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

    def load(self) -> None:
        """Read every run of the study again."""
        self.held, self._doubles, self._changes = {}, [], {}
        token: str | None = None
        while True:
            page = self._client.search_runs([self.experiment_id], max_results=1000, page_token=token)
            for run in page:
                self._file(run)
            token = page.token
            if not token:
                return

    def _file(self, run: Any) -> None:
        key = _key(run.data.tags, self._name)
        if key is None or not payload.is_of(run.data.tags, self._study_id, self._uri):
            return
        info, data = run.info, run.data
        known = dict(data.params), dict(data.metrics), dict(data.tags)
        held = Held(info.run_id, *known, info.status, info.end_time)
        other = self.held.get(key)
        if other is None:
            self.held[key] = held
            return
        # Two recorders wrote this trial at the same time. The more complete run stays, independent of MLflow's order.
        fuller, poorer = sorted((other, held), key=lambda h: (-len(h.params), -len(h.metrics), h.run_id))
        self.held[key] = fuller
        self._doubles.append(poorer)

    @property
    def waiting(self) -> int:
        """The number of runs with pending changes."""
        return len(self._changes)

    def flush(self) -> None:
        """Send all pending changes."""
        while self._changes:
            some = dict(islice(self._changes.items(), _TOGETHER))
            self._writer.write(list(some.values()))
            for place in some:
                del self._changes[place]

    def put(self, key: Key, content: RunContent, extra_tags: Mapping[str, str] | None = None) -> None:
        """Create a run with ``content``, or add the missing parts to an existing one.

        A run under this key with other parameters belongs to an earlier study of the same name and is retired.
        """
        tags = {k: v[:_LONGEST_TAG] for k, v in {**content.tags, **(extra_tags or {})}.items()}
        tags[payload.STUDY_ID] = self._study_id
        params = {k: v[:_LONGEST_PARAM] for k, v in content.params.items()}
        held = self.held.get(key)
        if held is not None and any(held.params.get(k, v) != v for k, v in params.items()):
            self.retire(key)
            held = None
        if held is None:
            held = self.held[key] = Held()
            self._changes[id(held)] = Change(held, content.name, content.started)
        self._complete(held, params, content.metrics, tags)
        if (held.status, held.finished) != (content.status, content.finished):
            self._change(held).ended = (content.status, content.finished)
            held.status, held.finished = content.status, content.finished

    def _change(self, held: Held) -> Change:
        return self._changes.setdefault(id(held), Change(held))

    def _complete(
        self, held: Held, params: Mapping[str, str], metrics: Mapping[str, float], tags: Mapping[str, str]
    ) -> None:
        # The present time and not the trial's: of two values with one timestamp MLflow shows the larger, not the later.
        now = time.time_ns() // 1_000_000
        new_params = {k: v for k, v in params.items() if k not in held.params}
        new_metrics = [Measurement(k, v, now) for k, v in metrics.items() if held.metrics.get(k) != v]
        new_tags = {k: v for k, v in tags.items() if held.tags.get(k) != v}
        if new_params or new_metrics or new_tags:
            change = self._change(held)
            change.params.update(new_params)
            change.measurements += new_metrics
            change.tags.update(new_tags)
        held.params.update(new_params)
        held.metrics.update(metrics)
        held.tags.update(new_tags)

    def add(self, key: Key, tags: Mapping[str, str], metrics: Mapping[str, float] | None = None) -> None:
        """Add tags and metrics that differ from the run's."""
        self._complete(self.held[key], {}, metrics or {}, tags)

    def log_steps(self, name: str, steps: Iterable[tuple[int, float, int]]) -> None:
        """Log ``(step, value, milliseconds)`` of one metric of the summary run."""
        listed = [Measurement(name, value, at, step) for step, value, at in steps]
        if listed:
            self._change(self.held[SUMMARY_KEY]).measurements += listed

    def steps(self, name: str) -> dict[int, float]:
        """Return the values of one metric of the summary run by step, the latest where there are several."""
        history = self._client.get_metric_history(self.summary(), name)
        return {m.step: m.value for m in sorted(history, key=lambda m: (m.step, m.timestamp))}

    def log_text(self, key: Key, text: str, name: str) -> None:
        """Store a text beside a run."""
        self.flush()
        self._artifacts.log_text(self.held[key].run_id, text, name)

    def log_folder(self, folder: Path, name: str) -> None:
        """Store a folder beside the summary run."""
        self._artifacts.log_folder(self.summary(), folder, name)

    def summary(self) -> str:
        """Return the id of the summary run, created if necessary."""
        self.flush()
        return self.held[SUMMARY_KEY].run_id

    def describe(self, tags: Mapping[str, str]) -> None:
        """Set tags of the experiment, unless another study that shares it describes it."""
        if (self.tags.get(payload.STUDY_ID) or self._study_id) != self._study_id:
            return
        if not self.tags.get(payload.STUDY_ID):
            tags = {**tags, payload.STUDY_ID: self._study_id}
        for name, value in tags.items():
            self._client.set_experiment_tag(self.experiment_id, name, value[:_LONGEST_TAG])
            self.tags[name] = value

    def retire(self, key: Key) -> None:
        """Mark a run as stale and remove this package's tags, without deleting it."""
        self.flush()
        self._retire(self.held.pop(key))

    def retire_doubles(self) -> None:
        """Retire every run whose trial has another, more complete run."""
        while self._doubles:
            self._retire(self._doubles.pop())

    def _retire(self, held: Held) -> None:
        self._client.set_tag(held.run_id, payload.STALE, "true")
        ours = (payload.TRIAL, payload.PREEMPTED, payload.SUMMARY, *payload.FRONT_TAGS)
        for name in ours:
            if name in held.tags:
                self._client.delete_tag(held.run_id, name)
        if held.status == "RUNNING":
            self._client.set_terminated(held.run_id, "KILLED")


def _key(tags: Mapping[str, str], experiment: str) -> Key | None:
    kinds: tuple[tuple[RunKind, str], ...] = (("trial", payload.TRIAL), ("preempted", payload.PREEMPTED))
    for kind, name in kinds:
        if tags.get(name, "").isdecimal():
            return tags.get(payload.STUDY, experiment), kind, int(tags[name])
    return SUMMARY_KEY if tags.get(payload.SUMMARY) == "true" else None

"""One study's runs in MLflow: what they hold, and writing only what is missing.

All reading and writing of runs is done here. What a run should hold is decided in :mod:`tune_vfl.tracking.payload`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tune_vfl.tracking import payload, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tune_vfl.tracking.payload import RunContent

RunKind = Literal["trial", "preempted", "summary"]
Key = tuple[RunKind, int]
SUMMARY_KEY: Key = ("summary", 0)

# MLflow refuses longer values, so they are cut; the ledger has them whole.
_LONGEST_PARAM, _LONGEST_TAG, _LARGEST_BATCH = 6000, 5000, 500


@dataclass
class Held:
    """What MLflow holds of one run."""

    run_id: str
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    status: str = "RUNNING"
    finished: int | None = None


class Runs:
    """The runs of one experiment.

    Args:
        study: its name, which is the experiment's.
        uri: the tracking URI.

    Raises:
        UnreachableError: when MLflow does not answer.
    """

    def __init__(self, study: str, uri: str) -> None:
        self._client = store.client(uri)
        self.experiment_id = self._open_experiment(study, uri)
        self.held: dict[Key, Held] = {}
        self._doubles: list[Held] = []
        self.load()

    def _open_experiment(self, study: str, uri: str) -> str:
        found = self._client.get_experiment_by_name(study)
        if found is None:
            return str(self._client.create_experiment(study, artifact_location=store.artifact_folder(uri, study)))
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def load(self) -> None:
        """Read every run of the experiment anew. Runs without tags of ours are ignored."""
        self.held, self._doubles = {}, []
        token: str | None = None
        while True:
            page = self._client.search_runs([self.experiment_id], max_results=1000, page_token=token)
            for run in page:
                self._file(run)
            token = page.token
            if not token:
                return

    def _file(self, run: Any) -> None:
        key = _key(run.data.tags)
        if key is None:
            return
        info, data = run.info, run.data
        held = Held(info.run_id, dict(data.params), dict(data.metrics), dict(data.tags), info.status, info.end_time)
        other = self.held.get(key)
        if other is None:
            self.held[key] = held
            return
        # Two recorders once wrote this trial at the same time. The run that holds more stays, in whatever order MLflow
        # lists them.
        fuller, poorer = sorted((other, held), key=lambda h: (-len(h.params), -len(h.metrics), h.run_id))
        self.held[key] = fuller
        self._doubles.append(poorer)

    def put(self, key: Key, content: RunContent, extra_tags: Mapping[str, str] | None = None) -> str:
        """Make a run hold ``content``: create it, or add what it lacks. Returns its id.

        A run under this key with other parameters belongs to an earlier study of the same name and is retired.
        """
        tags = {k: v[:_LONGEST_TAG] for k, v in {**content.tags, **(extra_tags or {})}.items()}
        params = {k: v[:_LONGEST_PARAM] for k, v in content.params.items()}
        held = self.held.get(key)
        if held is not None and any(held.params.get(k, v) != v for k, v in params.items()):
            self.retire(key)
            held = None
        if held is None:
            held = self._create(key, content, tags)
        self._complete(held, params, content.metrics, tags)
        if (held.status, held.finished) != (content.status, content.finished):
            self._client.set_terminated(held.run_id, content.status, content.finished)
            held.status, held.finished = content.status, content.finished
        return held.run_id

    def _create(self, key: Key, content: RunContent, tags: dict[str, str]) -> Held:
        run = self._client.create_run(self.experiment_id, start_time=content.started, tags=tags, run_name=content.name)
        held = self.held[key] = Held(run.info.run_id, tags=dict(tags))
        return held

    def _complete(
        self, held: Held, params: Mapping[str, str], metrics: Mapping[str, float], tags: Mapping[str, str]
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        # The present time and not the trial's: of two values with one timestamp MLflow shows the larger, not the later.
        now = time.time_ns() // 1_000_000
        new_params = [Param(k, v) for k, v in params.items() if k not in held.params]
        new_metrics = [Metric(k, v, now, 0) for k, v in metrics.items() if held.metrics.get(k) != v]
        new_tags = [RunTag(k, v) for k, v in tags.items() if held.tags.get(k) != v]
        if new_params or new_metrics or new_tags:
            self._client.log_batch(held.run_id, metrics=new_metrics, params=new_params, tags=new_tags)
        held.params.update(params)
        held.metrics.update(metrics)
        held.tags.update(tags)

    def tag(self, key: Key, tags: Mapping[str, str]) -> None:
        """Set the tags that differ from what the run holds."""
        self._complete(self.held[key], {}, {}, tags)

    def add(self, key: Key, tags: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """Add tags and metrics to a run, those that differ from what it holds."""
        self._complete(self.held[key], {}, metrics, tags)

    def log_steps(self, name: str, steps: Iterable[tuple[int, float, int]]) -> None:
        """Log ``(step, value, milliseconds)`` of one metric of the summary run."""
        from mlflow.entities import Metric

        run_id = self.held[SUMMARY_KEY].run_id
        listed = [Metric(name, value, at, step) for step, value, at in steps]
        for begin in range(0, len(listed), _LARGEST_BATCH):
            self._client.log_batch(run_id, metrics=listed[begin : begin + _LARGEST_BATCH])

    def steps(self, name: str) -> dict[int, float]:
        """Return the values of one metric of the summary run by step, the latest where there are several."""
        history = self._client.get_metric_history(self.held[SUMMARY_KEY].run_id, name)
        return {m.step: m.value for m in sorted(history, key=lambda m: (m.step, m.timestamp))}

    def log_text(self, text: str, name: str) -> None:
        """Store a text beside the summary run."""
        self._client.log_text(self.held[SUMMARY_KEY].run_id, text, name)

    def log_folder(self, folder: str, name: str) -> None:
        """Store a folder beside the summary run."""
        self._client.log_artifacts(self.held[SUMMARY_KEY].run_id, folder, name)

    def retire(self, key: Key) -> None:
        """Take a run out of the study without deleting it: our tags are removed from it, and it is marked stale."""
        self._retire(self.held.pop(key))

    def retire_doubles(self) -> None:
        """Take out of the study every run whose trial has another, fuller run."""
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


def _key(tags: Mapping[str, str]) -> Key | None:
    kinds: tuple[tuple[RunKind, str], ...] = (("trial", payload.TRIAL), ("preempted", payload.PREEMPTED))
    for kind, name in kinds:
        if tags.get(name, "").isdecimal():
            return kind, int(tags[name])
    return SUMMARY_KEY if tags.get(payload.SUMMARY) == "true" else None

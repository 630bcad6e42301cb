"""The recorder: shows a study in MLflow while it runs, and puts right whatever is missing there.

The ledger is the truth. MLflow may be away, may hold half a run after a crash, or may have lost runs; none of that
stops a search, and :meth:`Recorder.sync` rebuilds it. One writer per study.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tune_vfl.errors import UnreachableError
from tune_vfl.ledger.standing import Standing, growth, standing
from tune_vfl.machine.places import resolve_uri
from tune_vfl.tracking import payload
from tune_vfl.tracking.outbox import Outbox
from tune_vfl.tracking.runs import SUMMARY_KEY, Key, Runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tune_vfl.ledger.records import StudyRecord, TrialRecord

_log = logging.getLogger("tune_vfl.tracking")

# Seconds between two looks at who is on the front while a search runs, and between two tries of a server that is away.
_FRONT_EVERY, _RETRY_EVERY = 5.0, 30.0
# A look may cost at most one part in this many of the time.
_SHARE = 20
_UNKNOWN = "the recorder knows no study yet; call on_study or sync first"


class Recorder:
    """Writes one study to MLflow.

    ``on_trial`` and ``on_study`` never raise: what cannot be sent waits in an outbox. ``sync`` raises.

    Args:
        study: its name, which becomes the experiment's.
        uri: the spec's ``tracking``; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.

    Attributes:
        experiment: the experiment's name.
        uri: the tracking URI in use.
    """

    def __init__(self, study: str, uri: str | None = None) -> None:
        self.experiment = study
        self.uri = resolve_uri(uri)
        self._outbox = Outbox(study)
        self._runs: Runs | None = None
        self._record: StudyRecord | None = None
        self._trials: dict[int, TrialRecord] = {}
        self._steps: dict[int, float] = {}
        self._look_at = self._retry_at = 0.0
        # Whether this process brought trials: a search that starts again needs no new figures yet.
        self._told = False

    def __reduce__(self) -> tuple[type[Recorder], tuple[str, str]]:
        """Travel without the connection; the copy learns the study again from ``on_study``."""
        return Recorder, (self.experiment, self.uri)

    def on_trial(self, record: TrialRecord) -> None:
        """Record one finished trial. Before the first ``on_study`` or ``sync`` it is only remembered."""
        self._trials[record.number] = record
        self._told = True
        if self._record is not None:
            self._send([record], settled=False)

    def on_study(self, record: StudyRecord) -> None:
        """Record what is new in the study; exactly, with figures and tables, when nothing is running."""
        self._learn(record)
        self._send(self._trials.values(), settled=record.running == 0)

    def sync(self, record: StudyRecord) -> None:
        """Make MLflow hold exactly this study; repeating it changes nothing. Nothing that others added is deleted.

        Raises:
            UnreachableError: when MLflow does not answer, or stops answering half-way; call it again.
        """
        self._learn(record)
        self._runs = None
        try:
            runs = self._connect()
            self._write(runs, self._trials.values())
            self._look(runs, exact=True)
            if record.running == record.waiting == 0:
                self._attach(runs)
        except UnreachableError:
            raise
        except Exception as error:
            self._runs = None
            raise UnreachableError(
                f"MLflow at {self.uri} failed while {self.experiment} was written: {error}"
            ) from error
        self._outbox.clear()

    def _learn(self, record: StudyRecord) -> None:
        self._record = record
        self._trials = {**self._trials, **{t.number: t for t in record.trials}}

    def _connect(self) -> Runs:
        if self._runs is None:
            runs = Runs(self.experiment, self.uri)
            runs.retire_doubles()
            for key in self._strangers(runs):
                runs.retire(key)
            self._steps = runs.steps("hypervolume") if SUMMARY_KEY in runs.held else {}
            self._runs = runs
        return self._runs

    def _send(self, trials: Iterable[TrialRecord], *, settled: bool) -> None:
        """Write trials, or put them into the outbox. A projection must never stop a search, whatever it meets."""
        trials = list(trials)
        if not settled and time.monotonic() < self._retry_at:
            self._keep(trials)
            return
        try:
            runs = self._connect()
            self._write(runs, [*self._outbox.waiting(), *trials])
            self._look(runs, exact=settled)
            if settled and self._trials and (self._told or not self._study().waiting):
                self._attach(runs)
            self._outbox.clear()
        except Exception as error:
            self._runs = None
            self._retry_at = time.monotonic() + _RETRY_EVERY
            self._keep(trials)
            _log.warning("MLflow could not be written, trials wait in %s: %s", self._outbox.path, error)

    def _keep(self, trials: Iterable[TrialRecord]) -> None:
        waiting = {t.number for t in self._outbox.waiting()}
        for trial in trials:
            if trial.number not in waiting:
                self._outbox.put(trial)

    def _study(self) -> StudyRecord:
        if self._record is None:
            raise ValueError(_UNKNOWN)
        # What on_trial brought since the last on_study is part of the study.
        return replace(self._record, trials=tuple(self._trials[n] for n in sorted(self._trials)))

    def _write(self, runs: Runs, trials: Iterable[TrialRecord]) -> None:
        if SUMMARY_KEY not in runs.held:
            record = self._study()
            runs.put(SUMMARY_KEY, payload.summary_content(record, self._standing()))
        if self._record is None:
            raise ValueError(_UNKNOWN)
        cell = self._record.cell
        for trial in trials:
            key = _key(trial)
            # A new run starts off the front; the look that follows puts it on.
            fresh = {payload.PARETO: "false", payload.KNEE: "false"}
            tags = fresh if key[0] == "trial" and key not in runs.held else None
            runs.put(key, payload.trial_content(self.experiment, cell, trial), tags)

    def _strangers(self, runs: Runs) -> list[Key]:
        ours = {SUMMARY_KEY, *(_key(t) for t in self._trials.values())}
        return [key for key in runs.held if key not in ours]

    def _standing(self) -> Standing:
        record = self._study()
        return standing(record.trials, record.reference_point)

    def _look(self, runs: Runs, *, exact: bool) -> None:
        """Bring tags and the hypervolume up to date; if not exact, seldom, and only who enters or leaves the front."""
        begun = time.monotonic()
        if not exact and begun < self._look_at:
            return
        now = self._standing()
        for key, held in runs.held.items():
            if key[0] != "trial":
                continue
            wanted = payload.front_tags(key[1], now)
            moved = any(held.tags.get(name) != wanted[name] for name in (payload.PARETO, payload.KNEE))
            if exact or moved:
                runs.tag(key, wanted)
        self._grow(runs)
        runs.put(SUMMARY_KEY, payload.summary_content(self._study(), now))
        spent = time.monotonic() - begun
        self._look_at = begun + max(_FRONT_EVERY, _SHARE * spent)

    def _grow(self, runs: Runs) -> None:
        record = self._study()
        counted = sorted(record.counted, key=lambda t: (t.finished, t.number))
        areas = growth(record.trials, record.reference_point)
        # A value that is already there gets a later time when it must be corrected, so that the later one is shown.
        now = time.time_ns() // 1_000_000
        new = [
            (step, area, now if step in self._steps else payload.milliseconds(trial.finished))
            for step, (trial, area) in enumerate(zip(counted, areas, strict=True), start=1)
            if self._steps.get(step) != area
        ]
        runs.log_steps("hypervolume", new)
        self._steps.update({step: area for step, area, _ in new})

    def _attach(self, runs: Runs) -> None:
        """Attach spec, filters, figures and tables to the summary run, unless it has those of this very state."""
        from reports.page import spec_text, write_report

        record = self._study()
        digest = _digest(record)
        if runs.held[SUMMARY_KEY].tags.get(payload.DIGEST) == digest:
            return
        runs.log_text(spec_text(record), "spec.yaml")
        runs.log_text(json.dumps(payload.FILTERS, indent=2), "filters.json")
        with tempfile.TemporaryDirectory(prefix="tune-vfl-") as folder:
            page = write_report([record], Path(folder) / "report")
            runs.log_folder(str(page.parent), "report")
        runs.tag(SUMMARY_KEY, {payload.DIGEST: digest})


def _key(trial: TrialRecord) -> Key:
    return ("preempted" if trial.outcome.outcome == "preempted" else "trial"), trial.number


def _digest(record: StudyRecord) -> str:
    state = {
        "spec": record.spec.model_dump(mode="json"),
        "baseline": record.baseline.model_dump(mode="json") if record.baseline else None,
        "trials": [[t.number, t.outcome.model_dump(mode="json")] for t in record.trials],
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]

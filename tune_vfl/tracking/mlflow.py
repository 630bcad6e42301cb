"""The recorder: shows a study in MLflow while it runs, and writes there whatever is missing.

The ledger is the truth. MLflow may not answer, may hold half a run after a crash, or may have lost runs. None of that
stops a search: what could not be sent is sent with the next trials, at the latest at the end, and where that fails too,
or the search is killed, the next run of the study and :meth:`Recorder.sync` find in the ledger what MLflow lacks. A
study must have only one recorder at a time.
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
from tune_vfl.ledger.database import hide_password
from tune_vfl.ledger.standing import Growth, Standing, in_order, standing
from tune_vfl.machine.places import resolve_uri
from tune_vfl.tracking import payload
from tune_vfl.tracking.runs import SUMMARY_KEY, Key, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.records import StudyRecord, TrialRecord

_log = logging.getLogger("tune_vfl.tracking")

# While a search runs: seconds between two updates of the front's tags, and between two tries of a server that does not
# answer.
_FRONT_EVERY, _RETRY_EVERY = 5.0, 30.0
# Updates of the front take at most one part in this many of the time.
_SHARE = 20
_UNKNOWN = "the recorder knows no study yet; call on_study or sync first"


class Recorder:
    """Writes one study to MLflow.

    ``on_trials`` and ``on_study`` never raise: what cannot be sent is tried again later. ``sync`` raises.

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
        self._runs: Runs | None = None
        self._record: StudyRecord | None = None
        self._trials: dict[int, TrialRecord] = {}
        self._unsent: dict[int, TrialRecord] = {}
        self._growth: Growth | None = None
        self._steps: dict[int, float] = {}
        self._next_update_at = self._retry_at = 0.0
        # Whether this process recorded a trial. A search that has just been resumed needs no new figures yet.
        self._has_recorded = False
        self._attaching = False

    def __reduce__(self) -> tuple[type[Recorder], tuple[str, str]]:
        """Pickle the names only: the copy connects anew, and is given the study again by ``on_study``."""
        return Recorder, (self.experiment, self.uri)

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Record finished trials. Before the first ``on_study`` or ``sync`` they are only remembered.

        Raises:
            ValueError: when they are another study's.
        """
        if study != self.experiment:
            raise ValueError(f"expected trials of {self.experiment!r}, got some of {study!r}")
        new = {record.number: record for record in records}
        self._trials.update(new)
        self._unsent.update(new)
        self._has_recorded = True
        if self._record is not None:
            self._send(settled=False)

    def on_study(self, record: StudyRecord) -> None:
        """Record what is new in the study. Once nothing is running, update all tags and attach the report."""
        self._learn(record)
        self._send(settled=record.running == 0)

    def left(self) -> str:
        """Say what is still to be written; empty for nothing. Another thread may ask."""
        runs = self._runs
        if runs is not None and runs.waiting:
            return f"MLflow: {runs.waiting:,} runs are still to be written"
        return "MLflow: the report is still to be attached" if self._attaching else ""

    def sync(self, record: StudyRecord) -> None:
        """Make MLflow hold exactly this study. A second call changes nothing, and what others added is not deleted.

        Raises:
            UnreachableError: when MLflow does not answer, or stops answering halfway; call it again.
        """
        self._learn(record)
        self._runs = None
        try:
            runs = self._connect()
            self._write(runs)
            self._update_front(runs, exact=True)
            if record.running == record.waiting == 0:
                self._attach(runs)
        except UnreachableError:
            raise
        except Exception as error:
            self._runs = None
            raise UnreachableError(
                f"MLflow at {hide_password(self.uri)} failed while {self.experiment} was written: {error}"
            ) from error

    def _learn(self, record: StudyRecord) -> None:
        self._record = record
        self._trials = {**self._trials, **{t.number: t for t in record.trials}}
        self._unsent = dict(self._trials)

    def _connect(self) -> Runs:
        if self._runs is None:
            runs = Runs(self.experiment, self.uri)
            runs.retire_doubles()
            for key in self._foreign(runs):
                runs.retire(key)
            self._steps = runs.steps("hypervolume") if SUMMARY_KEY in runs.held else {}
            self._runs = runs
        return self._runs

    def _send(self, *, settled: bool) -> None:
        """Write what is not written yet. No failure of MLflow may stop a search, so none is raised."""
        if not settled and time.monotonic() < self._retry_at:
            return
        try:
            runs = self._connect()
            self._write(runs)
            self._update_front(runs, exact=settled)
            if settled and self._trials and (self._has_recorded or not self._study().waiting):
                self._attach(runs)
        except Exception as error:
            self._runs = None
            self._retry_at = time.monotonic() + _RETRY_EVERY
            again = "'tune-vfl doctor --repair' writes what is missing" if settled else "it is tried again"
            _log.warning("MLflow at %s could not be written; %s: %s", hide_password(self.uri), again, error)

    def _study(self) -> StudyRecord:
        if self._record is None:
            raise ValueError(_UNKNOWN)
        # Trials that on_trial recorded after the last on_study are part of the study too.
        return replace(self._record, trials=tuple(self._trials[n] for n in sorted(self._trials)))

    def _write(self, runs: Runs) -> None:
        """Write the trials that are not written yet, which then are."""
        if SUMMARY_KEY not in runs.held:
            runs.put(SUMMARY_KEY, payload.summary_content(self._study(), self._standing()))
        if self._record is None:
            raise ValueError(_UNKNOWN)
        cell = self._record.cell
        for trial in self._unsent.values():
            key = _key(trial)
            # A new run is tagged as not on the front; the update that follows corrects the tag where it is.
            fresh = {payload.PARETO: "false", payload.KNEE: "false"}
            tags = fresh if key[0] == "trial" and key not in runs.held else None
            runs.put(key, payload.trial_content(self.experiment, cell, trial), tags)
        runs.flush()
        self._unsent.clear()

    def _foreign(self, runs: Runs) -> list[Key]:
        ours = {SUMMARY_KEY, *(_key(t) for t in self._trials.values())}
        return [key for key in runs.held if key not in ours]

    def _standing(self) -> Standing:
        return standing(self._study())

    def _update_front(self, runs: Runs, *, exact: bool) -> None:
        """Update the tags of the front and the hypervolume.

        Unless ``exact``, this is done now and then only, and only for trials that enter or leave the front: with every
        trial the ranks of many others change, and nobody reads them before the end.
        """
        begun = time.monotonic()
        if not exact and begun < self._next_update_at:
            return
        record, now = self._study(), self._standing()
        ranked = []
        for key, held in runs.held.items():
            if key[0] != "trial":
                continue
            confirmed, metrics = payload.confirmed_content(record, key[1])
            wanted = {**payload.front_tags(key[1], now), **confirmed}
            if any(held.tags.get(name) != wanted[name] for name in (payload.PARETO, payload.KNEE, *confirmed)):
                runs.add(key, wanted, metrics)
            elif exact:
                ranked.append((key, wanted, metrics))
        self._grow(runs, record)
        runs.put(SUMMARY_KEY, payload.summary_content(record, now))
        runs.flush()  # whoever does not wait for the ranks has the front at least
        for found in ranked:
            runs.add(*found)
        runs.flush()
        spent = time.monotonic() - begun
        self._next_update_at = begun + max(_FRONT_EVERY, _SHARE * spent)

    def _grow(self, runs: Runs, record: StudyRecord) -> None:
        if self._growth is None or self._growth.reference != record.reference_point:
            self._growth = Growth(record.reference_point)
        counted = in_order(record.trials)
        # A corrected value gets the present time: of two values of one step MLflow shows the later.
        now = time.time_ns() // 1_000_000
        new = [
            (step, area, now if step in self._steps else payload.milliseconds(trial.finished))
            for step, (trial, area) in enumerate(zip(counted, self._growth.follow(counted), strict=True), start=1)
            if self._steps.get(step) != area
        ]
        runs.log_steps("hypervolume", new)
        self._steps.update({step: area for step, area, _ in new})

    def _attach(self, runs: Runs) -> None:
        """Attach spec, filters, figures and tables to the summary run, unless those it has are up to date."""
        from reports.page import spec_text, write_report

        record = self._study()
        digest = _digest(record)
        if runs.held[SUMMARY_KEY].tags.get(payload.DIGEST) == digest:
            return
        self._attaching = True
        try:
            runs.log_text(spec_text(record), "spec.yaml")
            runs.log_text(json.dumps(payload.FILTERS, indent=2), "filters.json")
            with tempfile.TemporaryDirectory(prefix="tune-vfl-") as folder:
                page = write_report([record], Path(folder) / "report")
                runs.log_folder(str(page.parent), "report")
            runs.tag(SUMMARY_KEY, {payload.DIGEST: digest})
            runs.flush()
        finally:
            self._attaching = False


def _key(trial: TrialRecord) -> Key:
    return ("preempted" if trial.outcome.outcome == "preempted" else "trial"), trial.number


def _digest(record: StudyRecord) -> str:
    state = {
        "spec": record.spec.model_dump(mode="json"),
        "baseline": record.baseline.model_dump(mode="json") if record.baseline else None,
        "trials": [[t.number, t.outcome.model_dump(mode="json")] for t in record.trials],
    }
    if record.confirmation is not None:  # else the digests of studies that were never confirmed would change
        state["confirmation"] = record.confirmation.plain()
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]

"""The recorder: writes a campaign or a study to MLflow while it runs, and completes earlier recordings.

The ledger is the source of truth. MLflow may not answer, may have half a run after a crash, or may have lost runs. None
of that stops a search: a failed call is retried with the next trials, at the latest at the end. After that, or after a
kill, the next run and :meth:`Recorder.sync` write the missing runs from the ledger. A study must have only one recorder
at a time; studies of one name and of several ledgers share an experiment, and are told apart by their ids.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from tune_vfl.analysis.front_statistics import HypervolumeHistory, in_order
from tune_vfl.errors import UnreachableError
from tune_vfl.machine.places import resolve_uri
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.tracking import attached, payload, summary
from tune_vfl.tracking.parts import Part, Whole, is_lone, reference_of
from tune_vfl.tracking.refusals import explained
from tune_vfl.tracking.runs import SUMMARY_KEY, Key, Runs

_log = logging.getLogger("tune_vfl.tracking")

# Seconds between two updates of the front's tags during a search, and before a retry of a server that does not answer.
_FRONT_EVERY, _RETRY_EVERY = 5.0, 30.0
# Updates of the front take at most 1 / _SHARE of the time.
_SHARE = 20


class Recorder:
    """Writes a campaign, or one study, to MLflow.

    Joint front, figures and report cover the studies passed to ``on_study``. ``on_trials``, ``on_study`` and ``on_end``
    never raise: a failed call is retried later. ``sync`` raises.

    Args:
        experiment: its name: that of the campaign or of the single study.
        uri: the spec's ``tracking``; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.
        look: reads the campaign from the ledger at the end of a search; not needed for a single study.
        report: draws the final report, as for :func:`tune_vfl.tracking.attached.attach_summary`.

    Attributes:
        experiment: the experiment's name.
        uri: the tracking URI in use.
    """

    def __init__(
        self,
        experiment: str,
        uri: str | None = None,
        look: Callable[[], CampaignRecord] | None = None,
        report: Callable[[], Mapping[str, bytes]] | None = None,
    ) -> None:
        self.experiment = experiment
        self._look, self._report = look, report
        self._known: CampaignRecord | None = None
        self.uri = resolve_uri(uri)
        self._parts: dict[str, Part] = {}
        self._runs: Runs | None = None
        # Studies whose MLflow runs have not been compared with the ledger.
        self._unchecked: set[str] = set()
        # Studies with runs in MLflow. While one of them is not loaded, the summary of all studies would be incomplete.
        self._held: set[str] = set()
        # The hypervolume by trial, computed and recorded, by the name of its metric.
        self._growth: dict[str, HypervolumeHistory] = {}
        self._steps: dict[str, dict[int, float]] = {}
        self._next_update_at = self._retry_at = 0.0
        self._attaching = False

    def __reduce__(self) -> tuple[type[Recorder], tuple[str, str]]:
        """Pickle the names only: the copy opens a connection of its own and needs ``on_study`` again."""
        return Recorder, (self.experiment, self.uri)

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Record finished trials. Before the first ``on_study`` of their study they are only queued."""
        self._parts.setdefault(study, Part()).add(records)
        if time.monotonic() >= self._retry_at:
            self._send(front=True)

    def on_study(self, record: StudyRecord) -> None:
        """Record a study's new trials and answers."""
        self._learn(record)
        if time.monotonic() >= self._retry_at:
            self._send()

    def on_end(self) -> None:
        """Finish the recording: update all tags and attach files."""
        self._send(ended=True)

    def left(self) -> str:
        """Describe the pending writes, empty for none; safe to call from another thread."""
        runs = self._runs
        if runs is not None and runs.waiting:
            return f"MLflow: {runs.waiting:,} runs are still to be written"
        return "MLflow: the report is still to be attached" if self._attaching else ""

    def sync(self, campaign: CampaignRecord) -> None:
        """Rewrite the experiment to match exactly this campaign or single study.

        A second call changes nothing; tags and runs of other programs stay.

        Raises:
            UnreachableError: when MLflow does not answer, or stops answering halfway; a second call completes the work.
        """
        self._runs, self._parts, self._known = None, {}, campaign
        for record in campaign.studies:
            self._learn(record)
        try:
            runs = self._connect()
            self._retire(runs, set(self._parts) | self._held)
            self._held.clear()
            self._finish(runs)
        except UnreachableError:
            raise
        except Exception as error:
            self._runs = None
            raise UnreachableError(
                f"{self.experiment} was not written to the end: {explained(error, self.uri)}"
            ) from error

    def _learn(self, record: StudyRecord) -> None:
        self._parts.setdefault(record.name, Part()).learn(record)
        self._unchecked.add(record.name)

    def _connect(self) -> Runs:
        if self._runs is None:
            study_id = next(part.snapshot.id for part in self._parts.values() if part.told)
            runs = Runs(self.experiment, self.uri, study_id)
            runs.retire_doubles()
            self._steps, self._held = {}, {key[0] for key in runs.held if key != SUMMARY_KEY}
            for name, part in self._parts.items():
                part.send_anew()
                self._unchecked.add(name)
            self._runs = runs
        return self._runs

    def _send(self, *, front: bool = False, ended: bool = False) -> None:
        """Write pending trials. No failure of MLflow may stop a search, so none is raised."""
        if not any(part.told for part in self._parts.values()):
            return
        try:
            runs = self._connect()
            if ended:
                if self._look is not None and not is_lone(self.experiment, self._parts):
                    self._known = self._look()
                self._finish(runs)
                return
            self._write(runs)
            if front and time.monotonic() >= self._next_update_at:
                self._update_front(runs)
        except Exception as error:
            self._runs = None
            self._retry_at = time.monotonic() + _RETRY_EVERY
            again = "'tune-vfl doctor --repair' writes what is missing" if ended else "it is tried again"
            why = str(error) if isinstance(error, UnreachableError) else explained(error, self.uri)
            _log.warning("MLflow could not be written; %s: %s", again, why)

    def _finish(self, runs: Runs) -> None:
        self._write(runs)
        whole = self._update_front(runs, exact=True)
        if not whole.trials:
            return
        self._attaching = True
        try:
            attached.attach_settings(runs, whole)
            if untold := self._untold():
                # One study of a campaign was run by itself. A joint front without the others would be wrong.
                _log.warning(
                    "MLflow's experiment %s has studies that this run did not know (%s): its summary and joint front "
                    "stay as they were; 'tune-vfl doctor --repair' updates them",
                    self.experiment,
                    ", ".join(sorted(untold)),
                )
            else:
                attached.attach_summary(runs, whole, self._report)
        finally:
            self._attaching = False

    def _whole(self) -> Whole:
        return Whole.of(self.experiment, self._parts.values(), self._known)

    def _untold(self) -> set[str]:
        """Return the studies with runs in MLflow that were not passed to this recorder."""
        return self._held - {name for name, part in self._parts.items() if part.told}

    def _write(self, runs: Runs) -> None:
        """Write the pending trials and mark them as written."""
        self._retire(runs, self._unchecked)
        if SUMMARY_KEY not in runs.held:
            runs.put(SUMMARY_KEY, summary.summary_content(self._whole()))
        # A new run is tagged as on no front; the update that follows corrects the tags where it is on one.
        fresh = payload.fresh_tags(lone=is_lone(self.experiment, self._parts))
        told = [(name, part) for name, part in self._parts.items() if part.told]
        for name, part in told:
            if not part.unsent:
                continue
            cell = part.snapshot.cell
            for trial in part.unsent.values():
                key = _key(name, trial)
                tags = fresh if key[1] == "trial" and key not in runs.held else None
                runs.put(key, payload.trial_content(name, cell, trial), tags)
        runs.flush()
        for _, part in told:
            part.unsent.clear()

    def _retire(self, runs: Runs, studies: set[str]) -> None:
        """Retire runs of these studies without a matching trial, such as those of a part that was removed."""
        ours: set[Key] = {SUMMARY_KEY}
        for name in studies & set(self._parts):
            ours |= {_key(name, trial) for trial in self._parts[name].trials.values()}
        for key in [key for key in runs.held if key[0] in studies and key not in ours]:
            runs.retire(key)
        self._unchecked = self._unchecked - studies

    def _update_front(self, runs: Runs, *, exact: bool = False) -> Whole:
        """Update the tags of the fronts and the hypervolume.

        Unless ``exact``, only for trials that enter or leave a front: with every trial the ranks of many others change,
        and they are rarely read before the end.
        """
        begun = time.monotonic()
        whole = self._whole()
        joint, complete = {place for places in whole.joint.values() for place in places}, not self._untold()
        ranked = []
        for study in whole.studies:
            ranks, again = whole.standings[study.name].ranks, payload.confirmed_contents(study)
            for trial in study.counted:
                key, place = _key(study.name, trial), (study.name, trial.number)
                confirmed, metrics = again.get(trial.number, ({}, {}))
                on = None if whole.lone else place in joint
                wanted = payload.front_tags(ranks.get(trial.number), knee=place in whole.knees, joint=on) | confirmed
                if not complete:
                    wanted = {k: v for k, v in wanted.items() if k not in payload.TOGETHER}
                held = runs.held[key].tags
                if any(held.get(name) != value for name, value in wanted.items() if name != payload.RANK):
                    runs.add(key, wanted, metrics)
                elif exact:
                    ranked.append((key, wanted, metrics))
        if complete:
            self._grow(runs, whole)
            runs.put(SUMMARY_KEY, summary.summary_content(whole))
            runs.describe(summary.description(whole, runs.experiment_id, runs.summary(), runs.tags))
        runs.flush()
        for found in ranked:  # the fronts first, for a user who interrupts the ranks
            runs.add(*found)
        runs.flush()
        spent = time.monotonic() - begun
        self._next_update_at = begun + max(_FRONT_EVERY, _SHARE * spent)
        return whole

    def _grow(self, runs: Runs, whole: Whole) -> None:
        for dataset, studies in whole.datasets.items():
            name, reference = summary.series(whole, "hypervolume", dataset), reference_of(studies)
            if name not in self._growth or self._growth[name].reference != reference:
                self._growth[name] = HypervolumeHistory(reference)
            if name not in self._steps:
                self._steps[name] = runs.steps(name)
            held, counted = self._steps[name], in_order(t for s in studies for t in s.trials)
            # A corrected value gets the present time: of two values of one step MLflow shows the later.
            now = time.time_ns() // 1_000_000
            new = [
                (step, area, now if step in held else payload.milliseconds(trial.finished))
                for step, (trial, area) in enumerate(zip(counted, self._growth[name].follow(counted), strict=True), 1)
                if held.get(step) != area
            ]
            runs.log_steps(name, new)
            held.update({step: area for step, area, _ in new})


def _key(study: str, trial: TrialRecord) -> Key:
    return study, ("preempted" if trial.outcome.outcome == "preempted" else "trial"), trial.number

"""The recorder: writes a campaign or a study to MLflow while it runs, and completes earlier recordings.

A run is written when its trial has ended; tags of fronts and the summary follow about each minute and at the end, files
at the end. The ledger is the source of truth: MLflow may not answer, may have half a run after a crash, or may have
lost runs. None of that stops a search: a failed call is repeated with the next trials, at the latest at the end. After
that, or after a kill, the next run and :meth:`Recorder.sync` write what is missing. A study must have only one recorder
at a time; studies of one name and of several ledgers share an experiment, and are told apart by their ids.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.places import resolve_uri
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.tracking import attached, payload, summary
from tune_vfl.tracking.payload import RunContent
from tune_vfl.tracking.refusals import explained
from tune_vfl.tracking.runs import SUMMARY_KEY, Change, Key, Runs
from tune_vfl.tracking.whole import Whole

_log = logging.getLogger("tune_vfl.tracking")

# Seconds between two updates of fronts and summary during a search, and before a retry where MLflow does not answer.
_UPDATE_EVERY, _RETRY_EVERY = 60.0, 30.0
# Updates take at most 1 / _SHARE of the time. Where new runs are a larger share of all, and more than _MANY, fronts are
# computed to write them: each has its final tags at once where no other trial follows.
_SHARE, _MANY = 20, 32


class Recorder:
    """Writes a campaign, or one study, to MLflow.

    Joint front, figures and report cover the studies passed to ``on_study``: pass all of a campaign. ``on_trials``,
    ``on_study`` and ``on_end`` never raise: a failed call is repeated later. ``sync`` and ``rewrite`` raise.

    Args:
        experiment: its name: that of the campaign or of the single study.
        uri: the spec's ``tracking``; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.
        look: reads the campaign from the ledger at the end of a search; None takes it from the studies as they come.
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
        self._studies: dict[str, StudyRecord] = {}  # as they were passed last
        self._trials: dict[Key, TrialRecord] = {}  # finished ones that have arrived, preempted ones included
        self._unchecked: set[str] = set()  # studies whose runs have not been compared with their trials
        self._runs: Runs | None = None
        # The hypervolume by trial, as it is recorded, by the name of its metric.
        self._steps: dict[str, dict[int, float]] = {}
        self._next_update_at = self._retry_at = 0.0
        self._attaching = False

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Record finished trials. Before the first ``on_study`` of their study they are only queued."""
        self._trials |= {_key(study, trial): trial for trial in records}
        self._send(self._follow)

    def on_study(self, record: StudyRecord) -> None:
        """Record a study's new trials and answers."""
        self._learn(record)
        self._send(self._write)

    def on_end(self) -> None:
        """Finish the recording: update all tags and attach files."""
        self._retry_at = 0.0
        self._send(self._end, later="'tune-vfl doctor --repair' writes what is missing")

    def left(self) -> str:
        """Describe the pending writes, empty for none; safe to call from another thread."""
        runs = self._runs
        if runs is not None and runs.waiting:
            return f"MLflow: {runs.waiting:,} runs are still to be written"
        return "MLflow: the report is still to be attached" if self._attaching else ""

    def sync(self, campaign: CampaignRecord) -> None:
        """Write what MLflow lacks of this campaign or single study, and delete what it has of removed parts.

        A second call changes nothing; tags and runs of other programs stay.

        Raises:
            UnreachableError: when MLflow does not answer, or stops answering halfway; a second call completes the work.
        """
        self._known, self._runs = campaign, None
        self._studies, self._trials = {}, {}
        for record in campaign.studies:
            self._learn(record)
        with self._translated():
            runs = self._connect()
            runs.delete([key for key in runs.written if key != SUMMARY_KEY and key[0] not in self._studies])
            self._finish(runs)

    def rewrite(self, campaign: CampaignRecord) -> None:
        """Delete all runs of this campaign or single study and write them anew; errors are those of :meth:`sync`."""
        with self._translated():
            runs = Runs(self.experiment, self.uri, campaign.studies[0].id)
            runs.delete(runs.written)
        self.sync(campaign)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UnreachableError:
            raise
        except Exception as error:
            self._runs = None
            raise UnreachableError(
                f"{self.experiment} was not written to the end: {explained(error, self.uri)}"
            ) from error

    def _learn(self, record: StudyRecord) -> None:
        self._studies[record.name] = record
        self._trials |= {_key(record.name, trial): trial for trial in record.trials}
        self._unchecked.add(record.name)

    def _connect(self) -> Runs:
        if self._runs is None:
            study_id = next(iter(self._studies.values())).id
            self._steps, self._unchecked = {}, set(self._studies)
            self._runs = Runs(self.experiment, self.uri, study_id)
        return self._runs

    def _send(self, write: Callable[[Runs], None], later: str = "it is tried again") -> None:
        """Write to MLflow. No failure of it may stop a search, so none is raised."""
        if not self._studies or time.monotonic() < self._retry_at:
            return
        try:
            write(self._connect())
        except Exception as error:
            self._runs = None
            self._retry_at = time.monotonic() + _RETRY_EVERY
            why = str(error) if isinstance(error, UnreachableError) else explained(error, self.uri)
            _log.warning("MLflow could not be written; %s: %s", later, why)

    def _follow(self, runs: Runs) -> None:
        self._write(runs)
        if time.monotonic() >= self._next_update_at:
            self._update(runs)

    def _end(self, runs: Runs) -> None:
        if self._look is not None:
            self._known = self._look()
        self._finish(runs)

    def _finish(self, runs: Runs) -> None:
        self._write(runs)
        whole = self._update(runs, ended=True)
        if not whole.trials:
            return
        self._attaching = True
        try:
            attached.attach_settings(runs, whole)
            attached.attach_summary(runs, whole, self._report)
        finally:
            self._attaching = False

    def _whole(self) -> Whole:
        arrived: dict[str, list[TrialRecord]] = {name: [] for name in self._studies}
        for (name, *_), trial in self._trials.items():
            if name in arrived:
                arrived[name].append(trial)
        studies = tuple(record.with_trials(arrived[name]) for name, record in self._studies.items())
        if self._known is not None:
            return Whole(replace(self._known, studies=studies))
        trials = sum(s.spec.budget.trials for s in studies)
        return Whole(replace(CampaignRecord.of(studies[0]), name=self.experiment, studies=studies, trials=trials))

    def _write(self, runs: Runs) -> None:
        """Write the runs that MLflow lacks, and delete those of no trial, as after a ledger came back from a backup."""
        written = [(key, run) for key, run in runs.written.items() if key[0] in self._unchecked]
        begun = {key: payload.milliseconds(trial.started) for key, trial in self._trials.items()} if written else {}
        runs.delete(key for key, run in written if run.started != begun.get(key))
        self._unchecked = set()
        if SUMMARY_KEY not in runs.written:
            runs.write_summary(summary.summary_content(self._whole()))
        known = (item for item in self._trials.items() if item[0][0] in self._studies)
        pending = {key: trial for key, trial in known if key not in runs.written}
        # One of a few is tagged as on no front; the update that follows corrects the tags where it is on one.
        many = len(pending) > max(_MANY, len(self._trials) / _SHARE)
        fronts = dict(_tags_of_fronts(self._whole())) if many else {}
        fresh = Change(payload.front_tags(None, knee=False, joint=False), {})

        def content(key: Key, trial: TrialRecord) -> RunContent:
            plain = payload.trial_content(key[0], self._studies[key[0]].cell, trial)
            return plain._replace(tags={**plain.tags, **fronts.get(key, fresh).tags}) if key[1] == "trial" else plain

        runs.write((key, content(key, trial)) for key, trial in pending.items())

    def _update(self, runs: Runs, *, ended: bool = False) -> Whole:
        """Update summary, hypervolume, and the tags of the fronts.

        Ranks are written at the end alone: with every trial those of many others change, and they are rarely read
        before.
        """
        begun = time.monotonic()
        whole = self._whole()
        wanted = dict(_tags_of_fronts(whole))
        fronts = {
            key: change._replace(tags={name: v for name, v in change.tags.items() if name != payload.RANK})
            for key, change in wanted.items()
        }
        runs.update(fronts)  # before the ranks, for a user who interrupts those
        runs.write_summary(summary.summary_content(whole))
        self._grow(runs, whole)
        runs.describe(summary.description(whole, runs.experiment_id, runs.summary, runs.tags))
        if ended:
            runs.update(wanted)
        self._next_update_at = begun + max(_UPDATE_EVERY, _SHARE * (time.monotonic() - begun))
        return whole

    def _grow(self, runs: Runs, whole: Whole) -> None:
        for dataset, joint in whole.joints.items():
            name = summary.series(whole, "hypervolume", dataset)
            if name not in self._steps:
                self._steps[name] = runs.steps(name)
            held = self._steps[name]
            # A corrected value gets the present time: of two values of one step MLflow shows the later.
            now = time.time_ns() // 1_000_000
            new = [
                (step, area, now if step in held else payload.milliseconds(ended))
                for step, (ended, _, _, area) in enumerate(joint.history, 1)
                if held.get(step) != area
            ]
            runs.log_steps(name, new)
            held.update({step: area for step, area, _ in new})


def _tags_of_fronts(whole: Whole) -> Iterable[tuple[Key, Change]]:
    """Yield what changes of the trials' runs as others end, by their keys: tags, and metrics of a confirmation."""
    for study in whole.campaign.studies:
        ranks, again = whole.ranks[study.name], payload.confirmed_contents(study)
        for trial in study.counted:
            place = (study.name, trial.number)
            confirmed, metrics = again.get(trial.number, ({}, {}))
            on = {"knee": place in whole.knees, "joint": place in whole.joint}
            tags = payload.front_tags(ranks.get(trial.number), **on)
            yield _key(study.name, trial), Change(tags | confirmed, metrics)


def _key(study: str, trial: TrialRecord) -> Key:
    return study, ("preempted" if trial.outcome.outcome == "preempted" else "trial"), trial.number

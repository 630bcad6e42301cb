"""Mapping of trials to MLflow runs: names, params, metrics and tags, computed before any call."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.analysis import formatting
from tune_vfl.analysis.columns import FRESH, SPANS, values
from tune_vfl.machine.places import embedded_uri
from tune_vfl.spec.cell import Cell, qualified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.outcome import Outcome
    from tune_vfl.records.confirmations import ConfirmedPoint
    from tune_vfl.records.studies import StudyRecord, TrialRecord

STUDY, TRIAL, OUTCOME = "tune_vfl.study", "tune_vfl.trial", "tune_vfl.outcome"
# On every run the id of its study or campaign; on an experiment that of the study that describes it.
STUDY_ID = "tune_vfl.study_id"
# Tags of a trial's place on its study's front, and on the joint front of its data set: of a single study the same.
PARETO, CAMPAIGN_PARETO = "tune_vfl.pareto", "tune_vfl.campaign_pareto"
RANK, KNEE, CONFIRMED = "tune_vfl.rank", "tune_vfl.knee", "tune_vfl.confirmed"
SUMMARY, PREEMPTED = "tune_vfl.summary", "tune_vfl.preempted"
# Fingerprints of attached files, which prevent a second upload: the summary's, and a front run's setting.
DIGEST, CONFIG = "tune_vfl.digest", "tune_vfl.config"
RETRY, NOTE = "tune_vfl.retry_of", "mlflow.note.content"
# Prefix of the tag of an attack that was left out of a trial; the value says why.
NOT_NEEDED = "tune_vfl.not_needed"

_OURS = "tune_vfl."
# MLflow's limit for the name of a run.
_LONGEST_NAME = 250


class RunContent(NamedTuple):
    """The complete content of one run.

    Attributes:
        name: shown in the UI.
        params: by name, as text.
        metrics: by name, finite only.
        tags: by name, without the changing ones of the front: see :func:`front_tags`.
        status: ``FINISHED`` or ``FAILED``.
        started, finished: milliseconds since 1970, UTC.
    """

    name: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    status: str
    started: int
    finished: int


def is_of(tags: Mapping[str, str], study_id: str, uri: str) -> bool:
    """Return whether a run with these tags is a study's.

    Runs of tune-vfl 0.1.0 have no id: those in the home's own database are the home's.

    Args:
        tags: of the run.
        study_id: of the study or the campaign, as the ledger has it.
        uri: the tracking URI.
    """
    before_ids = STUDY_ID not in tags and uri == embedded_uri() and any(name.startswith(_OURS) for name in tags)
    return before_ids or tags.get(STUDY_ID) == study_id


def milliseconds(moment: datetime) -> int:
    """Return a time in milliseconds since 1970; one without a time zone is UTC, as in the ledger."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def text(value: Any) -> str:
    """Return a parameter's value as text: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def finite(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Drop metrics that are missing, NaN or infinite, which MLflow must never get."""
    return {name: float(v) for name, v in metrics.items() if v is not None and math.isfinite(v)}


def measured(outcome: Outcome) -> dict[str, float]:
    """Return an ok outcome's metrics; empty for another outcome, which has no objectives."""
    if outcome.outcome != "ok" or outcome.utility is None:
        return {}
    listed: dict[str, float | None] = {
        "utility": outcome.utility.mean,
        "utility.std": outcome.utility.std,
        "leakage": outcome.leakage,
        "leakage.std": outcome.leakage_std,
    }
    for name, score in outcome.attacks.items():
        listed[f"attack.{name}"] = score.mean
        listed[f"attack.{name}.std"] = score.std
    return finite(listed)


def common_params(cell: Cell) -> dict[str, str]:
    """Return the parameters that every run of a study shares."""
    return {
        "dataset": cell.dataset.name,
        "defense": cell.defense,
        "model": cell.model.name,
        "seed_count": str(len(cell.seeds)),
    }


def run_name(cell: Cell, trial: TrialRecord) -> str:
    """Return a run's name: ``laplace scale=0.01 · AUC .726 · leak .03``, or the outcome of a failed trial."""
    setting = f"{cell.defense} {formatting.setting(trial.params)}" if trial.params else cell.defense
    outcome = trial.outcome
    if outcome.outcome != "ok" or outcome.utility is None:
        end = str(outcome.outcome)
    else:
        utility, leakage = formatting.short(outcome.objectives[0]), formatting.short(outcome.objectives[1], 2)
        end = f"{formatting.metric(outcome.utility.metric)} {utility} · leak {leakage}"
    most = _LONGEST_NAME - len(end) - len(" · ")
    return f"{setting if len(setting) <= most else setting[: most - 1] + '…'} · {end}"


def trial_content(study: str, cell: Cell, trial: TrialRecord) -> RunContent:
    """Return the run of one trial. A preempted one has no trial tag, because its retry is the trial that counts."""
    outcome = trial.outcome
    preempted = outcome.outcome == "preempted"
    tags = {STUDY: study, OUTCOME: outcome.outcome, PREEMPTED if preempted else TRIAL: str(trial.number)}
    if trial.retry_of is not None:
        tags[RETRY] = str(trial.retry_of)
    tags.update({f"{NOT_NEEDED}.{name}": why for name, why in outcome.not_needed.items()})
    if outcome.reason:
        tags[NOTE] = outcome.reason
    return RunContent(
        name=run_name(cell, trial),
        params={**common_params(cell), **{qualified(k): text(v) for k, v in trial.params.items()}},
        metrics=measured(outcome),
        tags=tags,
        status="FINISHED" if outcome.outcome == "ok" else "FAILED",
        started=milliseconds(trial.started),
        finished=milliseconds(trial.finished),
    )


def confirmed_contents(record: StudyRecord) -> dict[int, tuple[dict[str, str], dict[str, float]]]:
    """Return a confirmation's additions to the runs, by trial: a tag, and the metrics of fresh seeds.

    Empty for a study without a confirmation; a trial that took no part or left the front is tagged as not confirmed.
    """
    if record.confirmation is None:
        return {}
    points = {point.number: point for point in record.confirmation.points}
    return {t.number: _confirmed(points.get(t.number)) for t in record.counted}


def _confirmed(point: ConfirmedPoint | None) -> tuple[dict[str, str], dict[str, float]]:
    tags = {CONFIRMED: _word(point is not None and point.confirmed)}
    if point is None or point.outcome != "ok":
        return tags, {}
    measured_again = values(point, (*SPANS, "stays", "seeds"))
    return tags, finite({FRESH + name.replace("_", "."): value for name, value in measured_again.items()})


def front_tags(rank: int | None, *, knee: bool, joint: bool) -> dict[str, str]:
    """Return a trial's tags for front, knee and rank.

    Args:
        rank: in its study; None for a trial without objectives.
        knee: whether it is the best compromise of its data set.
        joint: whether it is on the joint front of its data set.
    """
    tags = {PARETO: _word(rank == 0), KNEE: _word(knee), CAMPAIGN_PARETO: _word(joint)}
    return tags if rank is None else {**tags, RANK: str(rank)}


def _word(true: bool) -> str:
    return "true" if true else "false"

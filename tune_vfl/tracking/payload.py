"""What a trial and a study look like in MLflow: names and values, computed before anything is sent."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.spec.cell import qualified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.ledger.records import StudyRecord, TrialRecord
    from tune_vfl.ledger.standing import Standing
    from tune_vfl.outcome import Outcome
    from tune_vfl.spec.cell import Cell

STUDY, TRIAL, OUTCOME = "tune_vfl.study", "tune_vfl.trial", "tune_vfl.outcome"
PARETO, RANK, KNEE = "tune_vfl.pareto", "tune_vfl.rank", "tune_vfl.knee"
CONFIRMED = "tune_vfl.confirmed"
FRONT_TAGS = (PARETO, RANK, KNEE, CONFIRMED)
SUMMARY, PREEMPTED, STALE = "tune_vfl.summary", "tune_vfl.preempted", "tune_vfl.stale"
DIGEST, RETRY = "tune_vfl.digest", "tune_vfl.retry_of"
NOTE = "mlflow.note.content"

FILTERS = {
    "the front": f"tags.`{PARETO}` = 'true'",
    "the knee": f"tags.`{KNEE}` = 'true'",
    "the points that a confirmation kept": f"tags.`{CONFIRMED}` = 'true'",
    "all trials": f"tags.`{TRIAL}` != ''",
    "trials that failed": f"tags.`{TRIAL}` != '' AND tags.`{OUTCOME}` != 'ok'",
    "leakage at most 0.2": f"tags.`{OUTCOME}` = 'ok' AND metrics.leakage <= 0.2",
    "this summary": f"tags.`{SUMMARY}` = 'true'",
}


class RunContent(NamedTuple):
    """What one run must hold.

    Attributes:
        name: shown in the UI.
        params: by name, as text.
        metrics: by name, finite only.
        tags: by name, without those of the front, which change as a search goes on: see :func:`front_tags`.
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


def milliseconds(moment: datetime) -> int:
    """Return a moment as MLflow counts time; one without a time zone is UTC, as the ledger writes it."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def text(value: Any) -> str:
    """Return a parameter's value as MLflow shows it: words as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def finite(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Return the metrics without those that are missing, NaN or infinite, which MLflow must never hold."""
    return {name: float(v) for name, v in metrics.items() if v is not None and math.isfinite(v)}


def measured(outcome: Outcome) -> dict[str, float]:
    """Return an ok outcome's metrics; nothing for another outcome, which has no objectives to compare."""
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


def trial_content(study: str, cell: Cell, trial: TrialRecord) -> RunContent:
    """Return the run of one trial. A preempted one has no trial tag, because its retry is the trial that counts."""
    outcome = trial.outcome
    preempted = outcome.outcome == "preempted"
    tags = {STUDY: study, OUTCOME: outcome.outcome, PREEMPTED if preempted else TRIAL: str(trial.number)}
    if trial.retry_of is not None:
        tags[RETRY] = str(trial.retry_of)
    if outcome.reason:
        tags[NOTE] = outcome.reason
    return RunContent(
        name=f"trial-{trial.number}" + ("-preempted" if preempted else ""),
        params={**common_params(cell), **{qualified(k): text(v) for k, v in trial.params.items()}},
        metrics=measured(outcome),
        tags=tags,
        status="FINISHED" if outcome.outcome == "ok" else "FAILED",
        started=milliseconds(trial.started),
        finished=milliseconds(trial.finished),
    )


def confirmed_content(record: StudyRecord, number: int) -> tuple[dict[str, str], dict[str, float]]:
    """Return what a confirmation adds to a trial's run: its tag, and metrics of what was measured again.

    Nothing where the study was not confirmed; a trial that took no part, or did not stay, is tagged as not confirmed.
    """
    if record.confirmation is None:
        return {}, {}
    point = next((p for p in record.confirmation.points if p.number == number), None)
    tags = {CONFIRMED: "true" if point is not None and point.confirmed else "false"}
    if point is None or point.outcome != "ok":
        return tags, {}
    low, high = point.utility_interval or (None, None)
    lower, upper = point.leakage_interval or (None, None)
    measured_again = {
        "confirmed.utility": point.utility,
        "confirmed.utility.low": low,
        "confirmed.utility.high": high,
        "confirmed.leakage": point.leakage,
        "confirmed.leakage.low": lower,
        "confirmed.leakage.high": upper,
        "confirmed.stays": point.stays,
        "confirmed.seeds": float(point.seeds),
    }
    return tags, finite(measured_again)


def front_tags(number: int, now: Standing) -> dict[str, str]:
    """Return a trial's tags of front, knee and rank; a trial without objectives has no rank."""
    rank = now.ranks.get(number)
    tags = {PARETO: "true" if rank == 0 else "false", KNEE: "true" if number == now.knee else "false"}
    return tags if rank is None else {**tags, RANK: str(rank)}


def summary_content(record: StudyRecord, now: Standing) -> RunContent:
    """Return the summary run: the undefended model (metrics ``baseline.*``), the front's size, filters to paste."""
    baseline = measured(record.baseline) if record.baseline else {}
    metrics = {f"baseline.{name}": value for name, value in baseline.items()}
    times = [m for t in record.trials for m in (milliseconds(t.started), milliseconds(t.finished))] or [0]
    return RunContent(
        name="summary",
        params=common_params(record.cell),
        metrics={**metrics, "front_size": float(len(now.front)), "trial_count": float(len(record.counted))},
        tags={STUDY: record.name, SUMMARY: "true", NOTE: _note(record, now)},
        status="FINISHED",
        started=min(times),
        finished=max(times),
    )


def _note(record: StudyRecord, now: Standing) -> str:
    counts = ", ".join(f"{n} {kind}" for kind, n in record.by_outcome().items() if n)
    lines = [
        f"**{record.name}**: {record.cell.defense} on {record.cell.dataset.name}, {counts or 'no trials yet'}.",
        f"{len(now.front)} on the front, hypervolume {now.hypervolume:.4f}.",
        "",
        "Paste one of these into the search field of the runs table:",
        "",
        *(
            f"- {what}: `` {query} ``"
            for what, query in FILTERS.items()
            if record.confirmation or CONFIRMED not in query
        ),
    ]
    return "\n".join(lines)

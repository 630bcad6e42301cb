"""The JSON format ``tune-vfl/study/1``: one study's progress, baseline, front and checks as plain data."""

from __future__ import annotations

from typing import Any

from tune_vfl.analysis.front_statistics import front_statistics
from tune_vfl.analysis.reliability import Reliability, reliability_of
from tune_vfl.analysis.selection import front_of
from tune_vfl.errors import SelectionError
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import named_uri
from tune_vfl.metrics.published import published
from tune_vfl.records.studies import StudyRecord, TrialRecord

STUDY_SCHEMA = "tune-vfl/study/1"


def study_summary(record: StudyRecord) -> dict[str, Any]:
    """Return a study's output for ``search --json`` and ``status --json``."""
    reliability, front = reliability_of(record), front_statistics(record)
    return {
        "schema": STUDY_SCHEMA,
        "study": record.name,
        "measure": record.measure,
        "trials": record.by_outcome(),
        "hypervolume": front.hypervolume,
        "reference_point": list(record.reference_point),
        "baseline": _baseline(record, reliability),
        "front": _front(record, reliability),
        "knee": front.knee,
        "cost": record.cost,
        "checks": [check.model_dump() for check in reliability.checks],
        "mlflow": {"experiment": record.name, "tracking_uri": hide_password(named_uri(record.spec.tracking))},
    }


def study_frontier(record: StudyRecord, attack: str | None = None) -> list[dict[str, Any]]:
    """Return a study's front as plain data, by falling utility; equal points all stay.

    Args:
        record: the study.
        attack: take this attack's advantage for the leakage instead of the worst attack's.

    Returns:
        A dict a point: ``number``, ``params``, ``utility``, ``leakage``, their standard deviations over the
        seeds and 90% intervals, ``leakage_worst_seed``, ``gain_kept`` (the share of what the federation adds to the
        label party's own model; null where it adds nothing), ``attacks``, the success of each by name,
        ``not_needed``, the reason for each that was left out, and ``published``, the papers' scalars by attack.

    Raises:
        SelectionError: when the study has no such attack.
    """
    return _front(record, reliability_of(record), attack)


def _front(record: StudyRecord, reliability: Reliability, attack: str | None = None) -> list[dict[str, Any]]:
    known = [a.name for a in record.cell.attacks]
    if attack is not None and attack not in known:
        raise SelectionError(f"study {record.name!r} has no attack {attack!r}; it has: {', '.join(known)}")
    points = [_point(record, t, reliability, attack) for t in front_of(record, attack)]
    return sorted(points, key=lambda p: (-p["utility"], p["number"]))


def _point(record: StudyRecord, trial: TrialRecord, reliability: Reliability, attack: str | None) -> dict[str, Any]:
    outcome, (utility, leakage) = trial.outcome, trial.outcome.objectives_against(attack)
    sure, again, alone = reliability.trials.get(trial.number), record.confirmed.get(trial.number), reliability.alone
    spread = outcome.leakage_std if attack is None else outcome.attacks[attack].advantage_std
    return {
        "number": trial.number,
        "params": trial.params,
        "utility": utility,
        "leakage": leakage,
        "utility_std": outcome.utility.std if outcome.utility else 0.0,
        "leakage_std": spread or 0.0,
        **({} if sure is None else sure.numbers()),
        **({} if alone is None else {"gain_kept": alone.kept(utility)}),
        "attacks": {name: score.mean for name, score in outcome.attacks.items()},
        **({"not_needed": outcome.not_needed} if outcome.not_needed else {}),
        "published": published(outcome),
        "measure": record.measure,
        "confirmed": again is not None,
        **({} if again is None else {"confirmation": again.numbers()}),
    }


def _baseline(record: StudyRecord, reliability: Reliability) -> dict[str, Any] | None:
    """Return the undefended model's numbers; its outcome alone when it has none."""
    outcome, alone = record.baseline, reliability.alone
    if outcome is None:
        return None
    if outcome.outcome != "ok":
        nothing = {"outcome": outcome.outcome, "reason": outcome.reason, "utility": None, "leakage": None}
        return {**nothing, "attacks": {}, "measure": record.measure}
    utility, leakage = outcome.objectives
    return {
        "outcome": "ok",
        "utility": utility,
        "leakage": leakage,
        "utility_std": outcome.utility.std if outcome.utility else 0.0,
        "leakage_std": outcome.leakage_std or 0.0,
        **({} if reliability.baseline is None else reliability.baseline.numbers()),
        **({} if alone is None else {"alone": alone.utility, "alone_interval": list(alone.interval)}),
        "attacks": {name: score.mean for name, score in outcome.attacks.items()},
        "measure": record.measure,
    }

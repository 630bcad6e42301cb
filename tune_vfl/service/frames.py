"""Trials and Pareto fronts of a study or a campaign as pandas frames with flat columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from tune_vfl.spec.cell import qualified

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.analysis.joint_front import Joint, JointPoint
    from tune_vfl.evaluation.certainty import Interval
    from tune_vfl.records.studies import StudyRecord, TrialRecord

_FRONT = ("dataset", "study", "number", "defense", "utility", "leakage")
_TRIALS = ("dataset", "study", "number", "defense", "outcome", "reason", "utility", "leakage")


def front_frame(joints: Sequence[Joint]) -> pd.DataFrame:
    """Return the joint front of each data set, a row per setting, by falling utility.

    Columns: the setting's identity, ``utility`` and ``leakage`` with ``*_low`` and ``*_high`` (90% intervals, missing
    where there are none), ``chance`` of being on the front, ``confirmed`` (then these are a confirmation's numbers),
    ``knee``, ``defense.PARAM``, and ``attack.NAME``, its success in the search.
    """
    return _frame([_front_row(point, joint) for joint in joints for point in joint.front], _FRONT)


def trials_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return the finished trials, a row each, by number within a study; preempted and failed ones have a ``reason``."""
    rows = [_trial_row(trial, record) for record in records for trial in sorted(record.trials, key=lambda t: t.number)]
    return _frame(rows, _TRIALS)


def _front_row(point: JointPoint, joint: Joint) -> dict[str, Any]:
    utility, leakage = point.objectives
    spans = point.sure.utility_interval, point.sure.leakage_interval
    again = point.again if point.confirmed else None
    if again is not None and again.utility is not None and again.leakage is not None:
        utility, leakage, spans = again.utility, again.leakage, (again.utility_interval, again.leakage_interval)
    knee = joint.knee is not None and point.name == joint.knee.name
    return {
        "dataset": point.dataset,
        "study": point.study,
        "number": point.number,
        "defense": point.defense,
        "utility": utility,
        **_ends("utility", spans[0]),
        "leakage": leakage,
        **_ends("leakage", spans[1]),
        "chance": point.chance,
        "confirmed": point.confirmed,
        "knee": knee,
        **_setting(point.trial),
    }


def _trial_row(trial: TrialRecord, record: StudyRecord) -> dict[str, Any]:
    outcome = trial.outcome
    utility, leakage = outcome.objectives if outcome.outcome == "ok" else (None, None)
    return {
        "dataset": record.cell.dataset.name,
        "study": record.name,
        "number": trial.number,
        "defense": record.cell.defense,
        "outcome": outcome.outcome,
        "reason": outcome.reason,
        "utility": utility,
        "utility_std": outcome.utility.std if outcome.utility else None,
        "leakage": leakage,
        "leakage_std": outcome.leakage_std,
        "seconds": (trial.finished - trial.started).total_seconds(),
        **_setting(trial),
    }


def _setting(trial: TrialRecord) -> dict[str, Any]:
    params = {qualified(name): value for name, value in trial.params.items()}
    return {**params, **{f"attack.{name}": score.mean for name, score in trial.outcome.attacks.items()}}


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = (None, None) if interval is None else interval
    return {f"{name}_low": low, f"{name}_high": high}


def _frame(rows: Sequence[Mapping[str, Any]], least: Sequence[str]) -> pd.DataFrame:
    """Return a frame of rows whose columns differ, parameters before attacks; an empty one keeps its usual columns."""
    columns = list(dict.fromkeys(name for row in rows for name in row)) or list(least)
    attacks = [name for name in columns if name.startswith("attack.")]
    frame = pd.DataFrame(rows, columns=[*(c for c in columns if c not in attacks), *attacks])
    numbers = [c for c in ("utility", "utility_std", "leakage", "leakage_std") if c in frame]
    numbers += [c for c in frame.columns if c.endswith(("_low", "_high"))]
    return frame.astype(dict.fromkeys(numbers, float))

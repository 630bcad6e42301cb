"""Adaptive attackers, tuned against single confirmed settings, and their effect on a setting's leakage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tune_vfl.confirmation.jobs import cell_of
from tune_vfl.evaluation.certainty import limits_over
from tune_vfl.execution.jobs import Job
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.answers import Confirmation, SettingKey
from tune_vfl.records.confirmations import FIRST_SEED, ConfirmedAttack, ConfirmedNumber, ConfirmedPoint
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics import Bounds, Limits, clipped, leakage_bounds

SEEDS = 5
"""The number of trainings for tuning an attacker; their mean decides."""


def owed(settings: Sequence[SettingKey], held: Mapping[SettingKey, TunedAttack], minutes: float) -> list[SettingKey]:
    """Return the settings without an attacker tuned for at least these minutes."""
    return [s for s in settings if s not in held or held[s].minutes < minutes]


def attacker_job(record: StudyRecord, number: int, minutes: float) -> Job:
    """Return the search for the best attacker against a trial's setting, on the first fresh seeds."""
    cell, params = cell_of(record, number)
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + SEEDS))
    cell = cell.model_copy(update={"seeds": seeds})
    return Job(cell, record.data, {(record.name, number): params}, asks="attacker", more={"minutes": minutes})


def with_attackers(answer: Confirmation, found: Mapping[SettingKey, TunedAttack]) -> Confirmation:
    """Add tuned attackers to the result of a confirmation.

    The front, the knee and the search's optimism are computed without them, as in the search.
    """
    points = tuple(with_tuned(point, found.get((point.study, point.number))) for point in answer.points)
    return answer.model_copy(update={"points": points})


def with_tuned(point: ConfirmedPoint, found: TunedAttack | None) -> ConfirmedPoint:
    """Raise a point's leakage to the tuned attacker's, if that is the largest.

    Its interval and its bound are the larger ones at either end. A tuned attacker of smaller advantage is no
    evidence for a setting.
    """
    if found is None or point.leakage is None or point.leakage_interval is None or point.leakage_upper_90 is None:
        return point
    mean = float(clipped(sum(found.advantages) / len(found.advantages)))
    limits = Limits(*(np.full((1, 1), part) for part in limits_over(found.floors, [])))
    (bounds,) = leakage_bounds([[list(found.advantages)]], limits)
    low, high = point.leakage_interval
    return point.model_copy(
        update={
            "tuned": found,
            "leakage": max(point.leakage, mean),
            "leakage_interval": (max(low, bounds.lower), max(high, bounds.upper)),
            "leakage_upper_90": max(point.leakage_upper_90, bounds.upper_90),
            "attacks": _with_tuned(point.attacks, found, bounds),
        }
    )


def _with_tuned(attacks: Mapping[str, ConfirmedAttack], found: TunedAttack, bounds: Bounds) -> dict[str, Any]:
    """Return each attack's result, with the tuned attack raised to its tuned result."""
    name = found.attack.partition("/")[0]
    if name not in attacks:
        return dict(attacks)
    (of_success,) = leakage_bounds([[list(found.success)]])
    advantage = attacks[name].advantage.raised(_bounded(found.advantages, bounds))
    success = attacks[name].success.raised(_bounded(found.success, of_success))
    return {**attacks, name: ConfirmedAttack(advantage=advantage, success=success)}


def _bounded(by_seed: Sequence[float], bounds: Bounds) -> ConfirmedNumber:
    mean = float(clipped(sum(by_seed) / len(by_seed)))
    return ConfirmedNumber(value=mean, interval=(bounds.lower, bounds.upper), upper_90=bounds.upper_90)

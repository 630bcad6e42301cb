"""Made-up studies for tests of tracking and reports: closed-form outcomes, nothing trained. Never shown as results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tune_vfl.outcome import AttackScore, Outcome, OutcomeName, Score
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.spaces.space import Space
from tune_vfl.spec import Named, StudySpec, Training
from tune_vfl.spec.cell import Cell

START = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
GUESS = 0.5
STUDY_ID = "0" * 32


def made_up_attack(success: float, *, floor: float = GUESS, spread: float = 0.01, **fields: Any) -> AttackScore:
    """Return an attack's score over three seeds around ``success``."""
    values = [min(1.0, max(0.0, success + k * spread)) for k in (-1, 0, 1)]
    score = Score.of("leak_auc", values)
    gains = Score.of("advantage", [min(1.0, max(0.0, (v - floor) / (1 - floor))) for v in values])
    return AttackScore(
        **score.model_dump(),
        advantage=gains.mean,
        advantage_std=gains.std,
        floor=floor,
        guess=GUESS,
        **{"variant": "made_up", "weak_attack": success < floor, **fields},
    )


def made_up_outcome(utility: float, success: float, *, weak: bool = False) -> Outcome:
    """Return an ok outcome with two attacks, ``norm`` (the stronger) and ``mean`` (an oracle, an upper bound)."""
    attacks = {
        "norm": made_up_attack(success),
        "mean": made_up_attack(success * 0.9 if not weak else 0.45, floor=0.5, upper_bound=True),
    }
    worst = max(attacks.values(), key=lambda a: a.advantage)
    return Outcome(
        outcome="ok",
        utility=Score.of("auc", [utility - 0.004, utility, utility + 0.004]),
        attacks=attacks,
        leakage=worst.advantage,
        leakage_std=worst.advantage_std,
        seconds={"train": 1.25, "attack": 0.25},
        notes=["made up for a test"],
    )


def made_up_trial(number: int, *, scale: float, outcome: Outcome, retry_of: int | None = None) -> TrialRecord:
    """Return a trial of the laplace defense that took a second."""
    begun = START + timedelta(seconds=2 * number)
    return TrialRecord(number, {"scale": scale}, outcome, begun, begun + timedelta(seconds=1), retry_of)


def _by_scale(scale: float, wobble: float) -> Outcome:
    """Both objectives fall as the noise grows; the wobble leaves some trials behind the front."""
    strength = 1 / (1 + math.exp(-(math.log10(scale) + 2.5) * 1.8))
    utility = 0.96 - 0.30 * strength**3 - 0.02 * wobble
    return made_up_outcome(utility, 0.5 + 0.46 * (1 - strength) + 0.03 * wobble, weak=strength > 0.95)


def made_up_study(
    trials: int = 24,
    *,
    name: str = "test-study",
    defense: str = "laplace",
    failures: Sequence[OutcomeName] = ("diverged", "timeout", "preempted"),
    shift: float = 0.0,
) -> StudyRecord:
    """Return a finished study of ``trials`` ok trials and one trial per failure; a preempted one is retried.

    Args:
        trials: how many trials with objectives.
        name: the study's name.
        defense: the defense's name, ``laplace`` or whatever a test lays side by side.
        failures: outcomes without objectives, one trial each, among the first.
        shift: moves the wobble, so that two studies differ.
    """
    listed: list[TrialRecord] = []
    for kind in failures:
        failed = Outcome.failed(kind, f"{kind} on purpose, for a test")
        listed.append(made_up_trial(len(listed), scale=0.5, outcome=failed))
    first_lost = next((t.number for t in listed if t.outcome.outcome == "preempted"), None)
    for k in range(trials):
        scale = 10 ** (-5 + 5 * ((k * 7) % trials) / max(1, trials - 1))
        number, wobble = len(listed), (math.sin(3.7 * k + shift) + 1) / 2 if k % 3 else shift / 4
        retry = first_lost if k == 0 else None
        listed.append(made_up_trial(number, scale=scale, outcome=_by_scale(scale, wobble), retry_of=retry))
    spec = StudySpec.model_validate(
        {
            "study": name,
            "dataset": "breast_cancer",
            "defense": {"name": defense},
            "attacks": ["norm", "mean"],
            "budget": {"trials": max(1, trials), "seeds": 3},
        }
    )
    cell = Cell(
        dataset=Named(name="breast_cancer"),
        model=Named(name="mlp"),
        training=Training(),
        defense=defense,
        attacks=spec.attacks,
        seeds=(0, 1, 2),
        metric="auc",
        num_classes=2,
        mode="split",
    )
    undefended = made_up_outcome(0.965, 0.97)
    measured = {"baseline": undefended, "reference_point": (GUESS, 1.0), "trials": tuple(listed)}
    return StudyRecord(spec=spec, cell=cell, space=Space(), id=STUDY_ID, **measured)

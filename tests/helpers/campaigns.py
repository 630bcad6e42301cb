"""Made-up campaigns with known numbers: utilities and advantages by seed, nothing trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.studies import START
from tune_vfl.analysis.select import select
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import ConfirmedAttack, ConfirmedNumber, ConfirmedPoint, UndefendedModel
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.spaces.space import Space
from tune_vfl.spec import Named, StudySpec, Training
from tune_vfl.spec.cell import Cell

Numbers = Sequence[float] | NDArray[np.float64]

GUESS = 0.5
STEADY = (-0.001, 0.0, 0.001)
"""What three seeds do to every number, where nothing else is said."""

UNDEFENDED = (0.95, 0.9)


def attack_of(advantages: Numbers) -> AttackScore:
    """Return an attack's score that has these advantages over a guess, by seed."""
    successes = [GUESS + (1 - GUESS) * a for a in advantages]
    mean = float(np.mean(advantages))
    return AttackScore(
        **Score.of("leak_auc", successes).model_dump(),
        advantage=min(1.0, max(0.0, mean)),
        advantage_std=Score.of("advantage", list(advantages)).std,
        advantages=[float(a) for a in advantages],
        floor=GUESS,
        floors=[GUESS] * len(advantages),
        guess=GUESS,
        variant="v",
        candidates={"v": successes},
    )


def outcome_of(utilities: Numbers, attacks: Mapping[str, Numbers]) -> Outcome:
    """Return an ok outcome with these utilities and advantages, by seed."""
    scores = {name: attack_of(found) for name, found in attacks.items()}
    worst = max(scores.values(), key=lambda s: s.advantage, default=None)
    return Outcome(
        outcome="ok",
        utility=Score.of("auc", list(utilities)),
        attacks=scores,
        leakage=worst.advantage if worst else 0.0,
        leakage_std=worst.advantage_std if worst else 0.0,
        rarest_in_test=100,
    )


def steady(utility: float, leakage: float, attacks: Sequence[str] = ("norm", "pmc"), seeds: int = 3) -> Outcome:
    """Return an outcome that hardly differs between seeds; the first attack finds most, the others half of that."""
    wobble = [STEADY[s % 3] for s in range(seeds)]
    found = {name: [leakage / (1 + (k > 0)) + w for w in wobble] for k, name in enumerate(attacks)}
    return outcome_of([utility + w for w in wobble], found)


def part_of(
    defense: str,
    outcomes: Sequence[Outcome | tuple[float, float]],
    *,
    dataset: str = "breast_cancer",
    attacks: Sequence[str] = ("norm", "pmc"),
    later: float = 0.0,
    **fields: Any,
) -> StudyRecord:
    """Return a study of a campaign called ``camp``.

    Args:
        defense: its name; the study is ``camp-DATASET-DEFENSE``.
        outcomes: of its trials, or (utility, leakage) of steady ones.
        dataset: its data set.
        attacks: what was run on it.
        later: how many seconds after the first study's its trials end.
        fields: of the record.
    """
    name = f"camp-{dataset}-{defense}"
    listed = ["default"] if fields.pop("default", True) else list(attacks)
    raw = {"study": name, "dataset": dataset, "defense": {"name": defense}, "attacks": listed}
    spec = StudySpec.model_validate({**raw, "budget": {"trials": max(1, len(outcomes)), "seeds": 3}})
    cell = Cell(
        dataset=Named(name=dataset),
        model=Named(name="mlp"),
        training=Training(),
        defense=defense,
        attacks=tuple(Named(name=a) for a in attacks),
        seeds=(0, 1, 2),
        metric="auc",
        num_classes=2,
        mode="split",
    )
    trials = tuple(_trial(n, o, later) for n, o in enumerate(outcomes))
    baseline = steady(*UNDEFENDED, attacks, seeds=10)
    measured = {"baseline": baseline, "reference_point": (GUESS, 1.0), "trials": trials, "alone": (0.75,) * 10}
    return replace(StudyRecord(spec=spec, cell=cell, space=Space(), **measured), **fields)


def _trial(number: int, found: Outcome | tuple[float, float], later: float) -> TrialRecord:
    outcome = found if isinstance(found, Outcome) else steady(*found)
    begun = START + timedelta(seconds=10 * number + later)
    return TrialRecord(number, {"scale": number + 1.0}, outcome, begun, begun + timedelta(seconds=1))


def again_of(value: float, wide: float = 0.02) -> ConfirmedNumber:
    """Return a number on fresh seeds whose interval is so wide to either side."""
    return ConfirmedNumber(value=value, interval=(value - wide, value + wide), upper_90=value + 0.75 * wide)


def confirmed(part: StudyRecord, found: dict[int, tuple[float, float, bool]]) -> StudyRecord:
    """Return a study with a confirmation that measured these trials: utility, leakage, and whether it stays.

    The leakage is that of ``norm``.
    """
    points = tuple(
        ConfirmedPoint(
            study=part.name,
            dataset="breast_cancer",
            defense=part.cell.defense,
            number=number,
            params={},
            seeds=10,
            on_front=True,
            confirmed=stays,
            stays=0.9 if stays else 0.1,
            utility=u,
            utility_interval=(u - 0.004, u + 0.004),
            leakage=x,
            leakage_untuned=x,
            leakage_interval=(x - 0.02, x + 0.02),
            leakage_upper_90=x + 0.015,
            attack="norm",
            attacks={"norm": ConfirmedAttack(advantage=again_of(x), success=again_of(GUESS + (1 - GUESS) * x, 0.01))},
            searched={"utility": u, "leakage": x},
        )
        for number, (u, x, stays) in found.items()
    )
    base = UndefendedModel(seeds=20, utility=0.95, utility_interval=(0.947, 0.953), leakage=0.9)
    changed = {"name": part.name, "points": points, "checks": (), "baseline": {"breast_cancer": base}}
    return replace(part, confirmation=made_up_confirmation().model_copy(update=changed))


def campaign_of(
    *parts: StudyRecord, constraints: Mapping[str, float] | None = None, confidence: float = 0.9, **fields: Any
) -> CampaignRecord:
    """Return a campaign of these studies."""
    spec = {"constraints": constraints, "confidence": confidence}
    about: dict[str, Any] = {"trials": sum(len(p.trials) for p in parts), **fields}
    return CampaignRecord("camp", parts, spec=spec, **about)


def noisy(utility: float, leakage: float, by: float) -> Outcome:
    """A setting that a seed moves: the first up, the second down; its attack finds the same with each."""
    return outcome_of([utility + by, utility - by, utility], {"norm": [leakage] * 3})


def several(gap: float) -> StudyRecord:
    """A part whose best setting is this much less useful than .93, with as much noise as five others have."""
    found = [noisy(0.93 - gap, 0.1, 0.01), *(noisy(0.7 - k / 20, 0.3, (-1) ** k * 0.01) for k in range(4))]
    return part_of("kdk", found, attacks=["norm"])


def chosen(record: StudyRecord, by: str) -> TrialRecord:
    """Return the trial of one study that is selected."""
    return select(CampaignRecord.of(record), by).trial

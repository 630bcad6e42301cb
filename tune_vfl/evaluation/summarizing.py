"""From what was measured seed by seed to one attack's score: its variant, its floor, its advantage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.scoring import success_metric
from tune_vfl.evaluation.table import Numbers
from tune_vfl.metrics import leakage as metric
from tune_vfl.outcome import AttackScore, Score
from tune_vfl.spec import Strict

CHOSEN = "chosen"
"""Stands for a variant where the attacker's own validation picks one, not always the same, seed by seed."""


def summarize(
    attack: Attack[Strict],
    variants: Mapping[str, Numbers],
    *,
    num_classes: int,
    guess: float,
    r_lower: Sequence[float] | None,
) -> AttackScore | None:
    """Summarize one trial: the best variant's success over its seeds, and every variant beside it.

    An attacker that can tell which of some variants is best, by its own validation, uses that one: they count as one.

    Args:
        attack: whose answers they are.
        variants: the trial's columns, a value a seed.
        num_classes: K.
        guess: success of the best constant guess at labels; that at features, the mean, succeeds by 0.
        r_lower: success of the same attack on an untrained bottom model, per seed, where that exists.

    Returns:
        None when no variant is defined on every seed.
    """
    on_features = attack.capabilities.goal == "features"
    name = "reconstruction" if on_features else success_metric(num_classes)
    guess = 0.0 if on_features else guess
    defined = {v: columns for v, columns in variants.items() if all(map(math.isfinite, columns["success"]))}
    if not defined:
        return None
    candidates = _candidates(defined)
    best = max(candidates, key=lambda v: float(np.mean(candidates[v]["success"])))
    score = Score.of(name, candidates[best]["success"])
    lower = None if r_lower is None else float(np.mean(r_lower))
    floors = [guess] * len(score.values) if lower is None or lower <= guess else list(r_lower or ())
    floor = float(np.mean(floors))
    signed = pseudo_values(score.values, floors)
    spread = Score.of("advantage", signed).std * (1 - floor) / max(1 - floor, metric.LEAST_SPAN)
    return AttackScore(
        **score.model_dump(),
        advantage=metric.advantage(score.mean, floor),
        advantage_std=spread,
        advantages=signed,
        floor=floor,
        floors=floors,
        guess=guess,
        r_lower=lower,
        variant=best,
        candidates={CHOSEN if "validation" in c else v: list(c["success"]) for v, c in candidates.items()},
        variants={v: {**Score.of(name, c["success"]).model_dump(), **_finite(_beside(c))} for v, c in defined.items()},
        upper_bound=_is_upper_bound(attack, best, candidates),
        weak_attack=lower is not None and score.mean < lower,
        extra=_beside(candidates[best]),
    )


def pseudo_values(successes: Sequence[float], floors: Sequence[float]) -> list[float]:
    """Return each seed's signed advantage, so that their mean is that of the mean success over the mean floor.

    The plain ratio of each seed is biased where floors differ and lie close to 1. Source: the jackknife's linear part.
    """
    a, f = np.asarray(successes, dtype=np.float64), np.asarray(floors, dtype=np.float64)
    left = 1 - float(f.mean())
    if left <= 0:
        return [0.0] * len(a)
    whole = float(a.mean() - f.mean()) / left
    signed: list[float] = (whole + ((a - f) - whole * (1 - f)) / left).tolist()
    return signed


def _candidates(variants: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the variants, those among which the attacker can choose as the one that it would."""
    choosable = {v: columns for v, columns in variants.items() if "validation" in columns}
    rest = {v: columns for v, columns in variants.items() if v not in choosable}
    if not choosable:
        return rest
    seeds = range(len(next(iter(choosable.values()))["validation"]))
    picks = [max(choosable, key=lambda v, s=s: choosable[v]["validation"][s]) for s in seeds]  # type: ignore[misc]
    if len(set(picks)) == 1:
        return {picks[0]: choosable[picks[0]], **rest}
    shared = set.intersection(*(set(choosable[v]) for v in picks))
    return {CHOSEN: {name: [choosable[v][name][s] for s, v in enumerate(picks)] for name in shared}, **rest}


def _beside(columns: Numbers) -> dict[str, float]:
    """Return the means of what was measured beside the success."""
    return {k: float(np.nanmean(v)) for k, v in columns.items() if k not in ("success", "validation")}


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {k: v for k, v in numbers.items() if math.isfinite(v)}


def _is_upper_bound(attack: Attack[Strict], best: str, candidates: Mapping[str, Numbers]) -> bool:
    """Whether the attacker could not have had this success: an oracle, or a variant it could not have known to pick."""
    return attack.is_upper_bound(best) or (len(candidates) > 1 and "validation" not in candidates[best])

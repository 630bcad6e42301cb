"""Summarize an attack's success by seed to one score: its party, its variant, its floor, its advantage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.scoring import success_metric
from tune_vfl.evaluation.table import Numbers
from tune_vfl.outcome import TOGETHER, UNTRAINED, AttackScore, Score, strongest_of
from tune_vfl.spec import Strict
from tune_vfl.statistics.advantages import advantage, chosen_floor
from tune_vfl.statistics.leakage import clipped

Columns = dict[str, list[Any]]

CHOSEN = "chosen"
"""Stands for a variant where the attacker's own validation picks one, not always the same, seed by seed."""


def summarize(
    attack: Attack[Strict],
    variants: Mapping[str, Numbers],
    *,
    num_classes: int,
    guess: float,
    r_lower: Sequence[float] | None,
    without: Mapping[str, Sequence[float]] | None = None,
) -> AttackScore | None:
    """Summarize one party's answers in one trial: the best variant's success over seeds, and every variant's.

    An attacker that can tell which of some variants is best, by its own validation, uses that one: they count as one.

    Args:
        attack: the attack that gave the answers.
        variants: the trial's columns, a value a seed.
        num_classes: K.
        guess: success of the best constant guess at labels; that at features, the mean, succeeds by 0.
        r_lower: success of the same attack on an untrained bottom model, per seed, where that exists.
        without: by way, successes per seed that the attacking party reaches without messages; the attack's own
            ``r_lower`` counts in any case.

    Returns:
        None when no variant is defined on every seed.
    """
    on_features = attack.capabilities.goal == "features"
    name = "reconstruction" if on_features else success_metric(num_classes)
    guess = 0.0 if on_features else guess
    defined = {v: columns for v, columns in variants.items() if all(map(math.isfinite, columns["success"]))}
    if not defined:
        return None
    candidates = standing(attack, defined)
    best, columns = best_of(candidates)
    score = Score.of(name, columns["success"])
    lower = None if r_lower is None else float(np.mean(r_lower))
    own = {} if r_lower is None else {f"{attack.name} {UNTRAINED}": r_lower}
    floor = chosen_floor([guess] * len(score.values), {**(without or {}), **own})
    found = advantage(score.values, floor.by_seed)
    return AttackScore(
        **score.model_dump(),
        advantage=float(clipped(found.value)),
        advantage_std=Score.of("advantage", found.by_seed.tolist()).std,
        advantages=found.by_seed.tolist(),
        floor=float(floor.by_seed.mean()),
        floors=floor.by_seed.tolist(),
        floor_by=floor.by,
        guess=guess,
        r_lower=lower,
        variant=best,
        candidates={CHOSEN if "validation" in c else v: list(c["success"]) for v, c in candidates.items()},
        variants={v: {**Score.of(name, c["success"]).model_dump(), **_finite(_beside(c))} for v, c in defined.items()},
        upper_bound=_is_upper_bound(attack, best, candidates),
        weak_attack=lower is not None and score.mean < lower,
        extra={**_beside(columns), **_told(candidates)},
    )


def worst_party(scores: Mapping[str, AttackScore]) -> AttackScore:
    """Return the score of an attack: the passive party with the largest advantage.

    Each party is an attacker by itself, with its own floor, and chooses among its own variants. What all of them reach
    together is shown beside it, and does not count as leakage.

    Args:
        scores: by party; that of the only passive one stands under no name.
    """
    if "" in scores:
        return scores[""]
    alone = {party: score for party, score in scores.items() if party != TOGETHER}
    worst = strongest_of(alone)
    score = alone[worst]
    beside = {
        "variant": f"{worst}/{score.variant}",
        "candidates": {f"{worst}/{name}": values for name, values in score.candidates.items()},
        "variants": {f"{party}/{name}": of for party, whole in scores.items() for name, of in whole.variants.items()},
        "extra": {**score.extra, **_together(scores.get(TOGETHER))},
        "parties": {party: whole.model_copy(update={"variants": {}}) for party, whole in alone.items()},
    }
    return score.model_copy(update=beside)


def _together(score: AttackScore | None) -> dict[str, float]:
    if score is None:
        return {}
    own = {"": score.mean, "_advantage": score.advantage, "_floor": score.floor}
    return {f"{TOGETHER}{what}": value for what, value in own.items()}


def standing(attack: Attack[Strict], variants: Mapping[str, Columns]) -> dict[str, Columns]:
    """Return the variants that represent the attack, of all that are defined.

    The one that the attack itself names as its choice stands alone. Those among which the attacker can choose by its
    own validation count as one, the one that it would choose seed by seed, or in each of several draws of a seed.
    """
    if attack.choice is not None and attack.choice in variants:
        return {attack.choice: variants[attack.choice]}
    choosable = {v: columns for v, columns in variants.items() if "validation" in columns}
    rest = {v: columns for v, columns in variants.items() if v not in choosable}
    if not choosable:
        return rest
    if CHOSEN in choosable:
        return {CHOSEN: choosable[CHOSEN], **rest}
    seeds = range(len(next(iter(choosable.values()))["validation"]))
    picks = [max(choosable, key=lambda v, s=s: choosable[v]["validation"][s]) for s in seeds]  # type: ignore[misc]
    if len(set(picks)) == 1:
        return {picks[0]: choosable[picks[0]], **rest}
    shared = set.intersection(*(set(choosable[v]) for v in picks))
    return {CHOSEN: {name: [choosable[v][name][s] for s, v in enumerate(picks)] for name in shared}, **rest}


def over_draws(attack: Attack[Strict], draws: Sequence[Mapping[str, Columns]]) -> dict[str, Columns]:
    """Return means over draws of the attacker's rows and random numbers, by variant and column, a value a member.

    Where the attacker chooses among variants, it does so in each draw, by what it knows there: that is a variant too.
    Variants that were scored in the first draw alone stay as they are there.

    Args:
        attack: the attack of these variants.
        draws: of each draw the variants' columns, a value a member.
    """
    if len(draws) == 1:
        return dict(draws[0])
    found = {**draws[0], **{variant: _mean_of([of[variant] for of in draws]) for variant in draws[-1]}}
    if sum("validation" in columns for columns in found.values()) < 2:
        return found
    chosen = [next(c for c in standing(attack, of).values() if "validation" in c) for of in draws]
    return {CHOSEN: _mean_of(chosen), **found}


def _mean_of(draws: Sequence[Columns]) -> Columns:
    shared = [name for name in draws[0] if all(name in columns for columns in draws)]
    return {name: np.mean([columns[name] for columns in draws], axis=0).tolist() for name in shared}


def best_of(variants: Mapping[str, Numbers]) -> tuple[str, Numbers]:
    """Return the variant with the largest mean success, and its columns."""
    return max(variants.items(), key=lambda item: float(np.mean(item[1]["success"])))


def _told(candidates: Mapping[str, Numbers]) -> dict[str, float]:
    """Return the mean success of the attacker's choice by its own validation, if it has any."""
    found = [c["success"] for c in candidates.values() if "validation" in c]
    return {CHOSEN: float(np.mean(found[0]))} if found else {}


def _beside(columns: Numbers) -> dict[str, float]:
    """Return the means of the secondary metrics."""
    return {k: _mean(v) for k, v in columns.items() if k not in ("success", "validation")}


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the entries that are numbers; numpy takes thirty times as long for a handful."""
    known = [value for value in values if not math.isnan(value)]
    return reduce(add, known) / len(known) if known else math.nan


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {k: v for k, v in numbers.items() if math.isfinite(v)}


def _is_upper_bound(attack: Attack[Strict], best: str, candidates: Mapping[str, Numbers]) -> bool:
    """Whether no real attacker reaches this success: an oracle, or a variant chosen by hindsight."""
    known = best == attack.choice or len(candidates) == 1 or "validation" in candidates[best]
    return attack.is_upper_bound(best) or not known

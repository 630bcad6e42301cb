"""Confidence intervals of utility and leakage for settings that share their seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.outcome import AttackScore, Outcome
from tune_vfl.statistics.advantages import LEAST_HEADROOM, narrow, pseudo_values
from tune_vfl.statistics.arrays import Bools, Floats
from tune_vfl.statistics.intervals import Estimate, levels, levels_by_undefended, undecided
from tune_vfl.statistics.leakage import Bounds, Limits, clipped, leakage_bounds, means_of_maxima

T = TypeVar("T")

Name = tuple[str, str]
"""An attack, by one of several passive parties where there are several, and one of its candidates."""

Interval = tuple[float, float]

NOT_MET = 2.0
"""Distance by which an imputed attack is put below a measured one, beyond the reach of its noise."""


class Certainty(NamedTuple):
    """Intervals of 90% of a setting's utility and leakage; None from a single seed.

    Attributes:
        utility_interval: over seeds and, where the metric has a formula, over other test rows of the source.
        leakage_interval: of the largest true advantage over all attacks and their candidates.
        leakage_upper_90: the one-sided bound by which settings are exported; None from a single seed.
        leakage_worst_seed: the mean over seeds of each seed's largest advantage.
        undecided: half of the leakage's interval is more than .25: it recommends nothing.
        amplified: attacks whose floor leaves less than .1 to gain, with ``1 / (1 - floor)``: what a deviation of the
            success is multiplied by.
    """

    utility_interval: Interval | None
    leakage_interval: Interval | None
    leakage_upper_90: float | None
    leakage_worst_seed: float
    undecided: bool
    amplified: dict[str, float]

    def numbers(self) -> dict[str, Any]:
        """Return the fields of an answer's JSON."""
        return {
            "utility_interval": None if self.utility_interval is None else list(self.utility_interval),
            "leakage_interval": None if self.leakage_interval is None else list(self.leakage_interval),
            "leakage_worst_seed": self.leakage_worst_seed,
            "undecided": self.undecided,
        }


def intervals_of(score: AttackScore) -> dict[str, Any]:
    """Return the 90% intervals of one attack's success and advantage, from its own seeds alone; None from one seed.

    Its candidates count as attacks of their own, as they do in a leakage.
    """
    if len(score.values) < 2 or not score.advantages:
        return {"interval": None, "advantage_interval": None}
    low, high = (clipped(end) for end in levels([score.values]).interval())
    candidates = list(candidates_of(score))
    gains = np.stack([_gains([score], c) for c in candidates])
    held = limits_of_score(score)
    (found,) = leakage_bounds(gains, Limits(*(np.full((len(candidates), 1), part) for part in held)))
    return {"interval": [float(low[0]), float(high[0])], "advantage_interval": [found.lower, found.upper]}


def candidates_of(score: AttackScore) -> dict[str, list[float]]:
    """Return an attack's candidates, success by seed; its best variant if the outcome lists none."""
    return dict(score.candidates) or {score.variant: list(score.values)}


def names_of(outcomes: Iterable[Outcome]) -> list[Name]:
    """Return all pairs of attack and candidate, in order of first occurrence."""
    found: dict[Name, None] = {}
    for outcome in outcomes:
        for a, score in outcome.attackers.items():
            for c in score.candidates or (score.variant,):
                found[a, c] = None
    return list(found)


def advantages_of(outcomes: Sequence[Outcome], names: Sequence[Name]) -> Floats:
    """Return signed advantages ``(K, N, S)`` of ok outcomes, by :func:`names_of`.

    Settings of several defenses need not have met the same attacks, see :func:`stood_in`.
    """
    by_name = [o.attackers for o in outcomes]
    if not by_name or not names:
        return np.empty((len(names), 0))
    met = np.asarray([[a in scores for scores in by_name] for a, _ in names])
    gains = np.full((*met.shape, len(_values(outcomes[0]))), np.nan)
    for k, (a, c) in enumerate(names):
        if scores := [met_by[a] for met_by in by_name if a in met_by]:
            gains[k, met[k]] = _gains(scores, c)
    return stood_in(gains, met)


def limits_of(outcomes: Sequence[Outcome], names: Sequence[Name]) -> Limits:
    """Return limits of the bounds of :func:`advantages_of`; none for an attack that a setting lacks."""
    held = [{a: limits_of_score(score) for a, score in o.attackers.items()} for o in outcomes]
    parts = [[by_name.get(a, (0.0, False)) for by_name in held] for a, _ in names]
    shape = len(names), len(outcomes)
    noise = np.asarray([[part[0] for part in row] for row in parts], dtype=np.float64).reshape(shape)
    return Limits(noise, np.asarray([[part[1] for part in row] for row in parts], dtype=bool).reshape(shape))


def limits_of_score(score: AttackScore) -> tuple[float, bool]:
    """Return one attack's entries of :class:`tune_vfl.statistics.leakage.Limits`."""
    return limits_over(score.floors or [score.floor], score.noise if len(score.noise) == len(score.values) else [])


def limits_over(floors: Sequence[float], noise: Sequence[float]) -> tuple[float, bool]:
    """Return the deviation of a mean advantage on noise, and whether the floor leaves little room above it.

    Args:
        floors: by seed.
        noise: the deviation of the success, by seed; empty where it is not known.
    """
    floor = sum(floors) / len(floors)
    of_mean = math.hypot(*noise) / max(1, len(noise))
    return (of_mean / (1 - floor) if floor < 1 else 0.0), narrow(floor)


def stood_in(gains: Floats, met: Bools) -> Floats:
    """Impute attacks that some settings lack, so that settings of several defenses make one block.

    The first attack that a setting met stands there, lower by :data:`NOT_MET`: with its spread, and never the worst,
    nor a contender for that. A setting's leakage and its bounds stay those of the attacks that it met.

    Args:
        gains: ``(K, N, S)``; entries of attacks that were not run are ignored.
        met: ``(K, N)``, at least one attack of each setting.
    """
    if met.all():
        return gains
    others = gains[met.argmax(0), np.arange(gains.shape[1])] - NOT_MET
    return np.where(met[..., None], gains, others)


def one_of(candidates: Mapping[str, T], name: str) -> T:
    """Return a candidate; if an outcome lacks it, another one of the same attack."""
    return candidates[name] if name in candidates else next(iter(candidates.values()))


def certainties(
    outcomes: Sequence[Outcome], undefended: Outcome | None = None, gains: Floats | None = None
) -> list[Certainty]:
    """Return each setting's certainty, with variances shrunk towards those of the whole study.

    What further seeds of the undefended model say of the luck of the first ones moves an interval of the utility and
    not the mean that is shown: where it would leave that mean outside, it reaches to it. The same holds of a leakage
    that was written with another definition than today's.

    Args:
        outcomes: ok ones, with the same seeds and attacks, without the undefended model.
        undefended: that model with these seeds and more; None where it is not known.
        gains: the result of :func:`advantages_of` on all their attacks, if computed already.
    """
    if not outcomes:
        return []
    if len(_values(outcomes[0])) < 2:
        return [Certainty(None, None, None, o.leakage or 0.0, False, _amplified(o)) for o in outcomes]
    names = names_of(outcomes)
    gains = advantages_of(outcomes, names) if gains is None else gains
    utility = utility_levels([_values(o) for o in outcomes], [] if undefended is None else _values(undefended))
    low, high = (clipped(end) for end in utility.interval(rows=[variance_over_rows(o) for o in outcomes]))
    ends = zip(low.tolist(), high.tolist(), strict=True)
    utilities = [holding(o.objectives[0], found) for o, found in zip(outcomes, ends, strict=True)]
    if not names:
        return [Certainty(utility, None, None, 0.0, False, {}) for utility in utilities]
    worst = clipped(means_of_maxima(gains)).tolist()
    bounds = leakage_bounds(gains, limits_of(outcomes, names))
    return [_certainty(*found) for found in zip(outcomes, utilities, bounds, worst, strict=True)]


def _certainty(outcome: Outcome, utility: Interval, bounds: Bounds, worst: float) -> Certainty:
    leakage = holding(outcome.objectives[1], (bounds.lower, bounds.upper))
    return Certainty(utility, leakage, bounds.upper_90, worst, undecided(*leakage), _amplified(outcome))


def holding(point: float, interval: Interval) -> Interval:
    """Return an interval widened to include a point."""
    return min(interval[0], point), max(interval[1], point)


def _values(outcome: Outcome) -> list[float]:
    return outcome.utility.values if outcome.utility else []


def utility_levels(utilities: ArrayLike, undefended: Sequence[float]) -> Estimate:
    """Estimate settings' utilities ``(N, S)``, paired with the undefended model's seeds if it has enough of them."""
    block = np.asarray(utilities, dtype=np.float64)
    return levels_by_undefended(block, undefended) if len(undefended) >= block.shape[1] else levels(block)


def variance_over_rows(outcome: Outcome) -> float:
    """Return the variance over other test rows that the spread over seeds lacks; 0 if unknown."""
    known = outcome.utility_variance
    return outcome.rows_shared * float(np.mean(known)) if len(known) == len(_values(outcome)) else 0.0


def _amplified(outcome: Outcome) -> dict[str, float]:
    scores = outcome.attackers.items()
    return {name: 1 / (1 - score.floor) for name, score in scores if 0 < 1 - score.floor < LEAST_HEADROOM}


def _gains(scores: Sequence[AttackScore], candidate: str) -> Floats:
    """Return signed advantages ``(N, S)`` of one attack and candidate."""
    floors = [score.floors or [score.floor] * len(score.values) for score in scores]
    values = [s.candidates.get(candidate) or one_of(candidates_of(s), candidate) for s in scores]
    return pseudo_values(values, floors)

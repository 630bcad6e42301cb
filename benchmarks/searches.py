"""Simulated searches of which the truth is known: what is exported from them, and what a confirmation keeps.

``python -m benchmarks.coverage fronts export rejects`` prints the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tune_vfl.metrics import pareto
from tune_vfl.metrics.pareto import front
from tune_vfl.statistics import (
    Scale,
    candidates,
    differences,
    dominance,
    knee,
    leakage_bounds,
    leakage_differences,
    membership,
    plan,
    worst_means,
)
from tune_vfl.statistics.fronts import TOLERANCES

SEED, ATTACKS = 18, 5
UTILITY_SD, ADVANTAGE_SD = 0.006, 0.06
Floats = np.ndarray


def spreads(rng: np.random.Generator, settings: int) -> Floats:
    """Return the settings' own deviations ``(N, 1)``, their variances 1 on average."""
    return np.sqrt(4 / rng.chisquare(6, size=(settings, 1)))


class Searched(NamedTuple):
    """The truth of a search, and what three seeds showed of it."""

    utility: Floats
    advantages: Floats
    spread_u: Floats
    spread_x: Floats

    @property
    def leakage(self) -> Floats:
        return self.advantages.max(0)

    def seen(self, rng: np.random.Generator, seeds: int) -> tuple[Floats, Floats]:
        """Return utilities ``(N, S)`` and advantages ``(K, N, S)`` of fresh seeds."""
        n = len(self.utility)
        u = np.sqrt(0.9) * rng.normal(size=seeds) + np.sqrt(0.1) * self.spread_u * rng.normal(size=(n, seeds))
        shared = np.sqrt(0.3) * rng.normal(size=(ATTACKS, 1, seeds))
        x = shared + np.sqrt(0.7) * self.spread_x * rng.normal(size=(ATTACKS, n, seeds))
        return self.utility[:, None] + UTILITY_SD * u, self.advantages[..., None] + ADVANTAGE_SD * x


def searched(rng: np.random.Generator, trials: int) -> Searched:
    """Draw a search: strengths of a defense that cost utility and leave less leakage, some of them wasteful.

    Utility falls from .90 to .84 and leakage from .5 to 0, both bent; settings give away up to .02 more, exponentially
    often little. The five attacks lie 0 to .2 below the worst one.
    """
    strength = rng.uniform(size=trials)
    utility = 0.9 - 0.06 * strength**2 - rng.exponential(0.006, trials)
    worst = 0.5 * (1 - strength) ** 1.5 + rng.exponential(0.01, trials)
    below = rng.uniform(0, 0.2, (ATTACKS, trials))
    below[rng.integers(ATTACKS, size=trials), np.arange(trials)] = 0.0
    return Searched(
        utility, worst - below, spreads(rng, trials), spreads(rng, ATTACKS * trials).reshape(ATTACKS, trials, 1)
    )


class Export(NamedTuple):
    """Exported settings: the share that truly leaks more than the cap, mean truth, utility given up, no choice."""

    above: float
    leakage: float
    given_up: float
    none: float

    def __str__(self) -> str:
        return f"{self.above:.3f} | {self.leakage:.3f} | {self.given_up:.4f} | {self.none:.3f}"


EXPORTS = ("point, 3 seeds", "U90, 3 seeds", "U90, 10 fresh seeds")


def most_useful_below(utility: Floats, bounds: Sequence[float], cap: float) -> int | None:
    """Return the most useful of the settings whose bound keeps a cap, as an export chooses it; None without one."""
    meeting = np.asarray(bounds) <= cap
    return int(np.where(meeting, utility, -np.inf).argmax()) if meeting.any() else None


def exported(trials: int, studies: int, cap: float = 0.2) -> dict[str, Export]:
    """Return what each way of exporting ``leakage<=cap`` gives."""
    rng = np.random.default_rng(SEED)
    found: dict[str, list[tuple[float, ...]]] = {way: [] for way in EXPORTS}
    for _ in range(studies):
        truth = searched(rng, trials)
        u, x = truth.seen(rng, 3)
        chosen = {
            EXPORTS[0]: most_useful_below(u.mean(1), x.mean(-1).max(0), cap),
            EXPORTS[1]: most_useful_below(u.mean(1), [b.upper_90 for b in leakage_bounds(x)], cap),
        }
        points = neighborhood(u, x)
        u, x = (v[..., points, :] for v in truth.seen(rng, 10))
        place = most_useful_below(u.mean(1), [b.upper_90 for b in leakage_bounds(x)], cap)
        chosen[EXPORTS[2]] = None if place is None else points[place]
        best = truth.utility[truth.leakage <= cap].max(initial=-np.inf)
        for way, setting in chosen.items():
            if setting is None:
                found[way].append((np.nan, np.nan, np.nan, 1.0))
            else:
                leaks = truth.leakage[setting]
                found[way].append((float(leaks > cap), leaks, best - truth.utility[setting], 0.0))
    return {way: Export(*np.nanmean(np.where(np.isfinite(rows), rows, np.nan), axis=0)) for way, rows in found.items()}


def neighborhood(u: Floats, x: Floats) -> list[int]:
    """Return what a confirmation starts from: the front of the means and its likeliest neighbors."""
    means = np.column_stack([u.mean(1), x.mean(-1).max(0)])
    member = membership(dominance(differences(u), leakage_differences(x)))
    return candidates(member, front(means), len(u))


class Rejects(NamedTuple):
    """Means over searches: points, trainings, those of 2N seeds for all, members lost, dominated points kept."""

    points: float
    runs: float
    uniform: float
    lost: float
    kept: float


def rejected(trials: int, studies: int, seeds: int = 10) -> Rejects:
    """Confirm searches by successive rejects; a point is dominated that another beats by both full tolerances."""
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(studies):
        truth = searched(rng, trials)
        points = neighborhood(*truth.seen(rng, 3))
        u, x = (v[..., points, :] for v in truth.seen(rng, 2 * seeds))
        has = np.zeros(len(points), dtype=int)
        while True:
            shown = np.arange(2 * seeds) < has[:, None]
            step = plan(np.where(shown, u, np.nan), np.where(shown, x, np.nan), seeds)
            if step.done:
                break
            has = np.maximum(has, step.wanted)
        true_u, true_l = truth.utility[points], truth.leakage[points]
        dominated = beaten(true_u, true_l)
        on_front = front(np.column_stack([true_u, true_l]))
        found.append(
            (
                len(points),
                has.sum(),
                2 * seeds * len(points),
                (on_front & ~step.kept).sum(),
                (dominated & step.kept).sum(),
            )
        )
    return Rejects(*(float(v) for v in np.mean(found, axis=0)))


class Fronts(NamedTuple):
    """Fronts: the share of their settings that truly belong to them, and what is given up.

    Attributes:
        calibration: of settings whose chance was said to be .2, .4, .6 and .8 (each +- .1), the share that truly no
            other one beats by both tolerances.
        knee: what the knee gives up of utility minus leakage on the fixed scale.
        chord: what the point farthest from the chord gives up.
    """

    calibration: list[float]
    knee: float
    chord: float


SAID = (0.2, 0.4, 0.6, 0.8)


def fronts(trials: int, seeds: int, studies: int) -> Fronts:
    """Return how searches of some trials and seeds show their fronts."""
    rng, scale = np.random.default_rng(SEED), Scale(utility_low=0.84, utility_high=0.9, leakage_high=0.5)
    said, held, given_up = [], [], []
    for _ in range(studies):
        truth = searched(rng, trials)
        u, x = truth.seen(rng, seeds)
        said.append(membership(dominance(differences(u), leakage_differences(x))))
        held.append(~beaten(truth.utility, truth.leakage))
        points = np.column_stack([u.mean(1), worst_means(x)])
        balance = (truth.utility - 0.84) / 0.06 - truth.leakage / 0.5
        chosen = (knee(np.flatnonzero(front(points)).tolist(), u, x, scale), pareto.knee(points))
        given_up.append([balance.max() - balance[setting] for setting in chosen])
    chances, true = np.concatenate(said), np.concatenate(held)
    return Fronts([float(true[np.abs(chances - s) < 0.1].mean()) for s in SAID], *map(float, np.mean(given_up, axis=0)))


def beaten(utility: Floats, leakage: Floats) -> Floats:
    """Mark ``(N,)`` settings that another one truly beats by more than both tolerances."""
    better = utility[None] > utility[:, None] + TOLERANCES.utility
    return (better & (leakage[None] < leakage[:, None] - TOLERANCES.leakage)).any(1)

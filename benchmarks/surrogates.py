"""Guessed outcomes of a defense at settings that its table does not hold, for replays of searches.

Two guesses, because neither is the truth: ``nearest`` answers as the nearest row in the unit cube of the space, a
landscape of steps; ``linear`` goes through all rows and between them straight (a linear radial basis; in one dimension
the straight lines from row to row). Both stay within what the rows show, both take the noise of the rows' own three
seeds for landscape, so they are rougher than the defense, and neither knows what lies beyond the rows. What a search is
shown is the guess and, anew for each setting, noise of the size that the table has: what is left of a seed's
utility, or of its largest advantage, after the setting's mean and what the seed gives to all settings.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.trial_tables import REFERENCES, Row, rows_of, settings_of, study_of
from tune_vfl.metrics.pareto import front, hypervolume
from tune_vfl.spaces.space import Space, point_key

Floats = np.ndarray
Guess = Callable[[Floats], Floats]
# Settings that stand for all of a space when its best front is looked for.
DENSE = 1000
# The width of a band of leakage.
BAND = 0.1


def nearest(places: Floats, answers: Floats) -> Guess:
    """Answer as the nearest row, the first of several; ``(N, d)`` and ``(N, 2)`` to ``(M, d) -> (M, 2)``."""

    def guess(asked: Floats) -> Floats:
        return answers[((asked[:, None] - places[None]) ** 2).sum(-1).argmin(1)]

    return guess


def linear(places: Floats, answers: Floats) -> Guess:
    """Go straight from row to row and stay within what they show; same shapes."""
    from scipy.interpolate import RBFInterpolator

    distinct, first = np.unique(places, axis=0, return_index=True)
    through = RBFInterpolator(distinct, answers[first], kernel="linear")
    low, high = answers.min(0), answers.max(0)
    return lambda asked: np.clip(through(asked), low, high)


def encoded(params: Mapping[str, object], distributions: Mapping[str, object]) -> list[float]:
    """Return a setting's place in the unit cube of its space, a side for each choice of a categorical parameter."""
    import optuna

    numbers = []
    for name, d in distributions.items():
        if isinstance(d, optuna.distributions.CategoricalDistribution):
            numbers += [float(d.to_internal_repr(params[name]) == k) for k in range(len(d.choices))]
        else:
            scale = np.log if d.log else float
            low, high, value = scale(d.low), scale(d.high), scale(params[name])
            numbers.append(float((value - low) / (high - low)) if high > low else 0.0)
    return numbers


GUESSES: dict[str, Callable[[Floats, Floats], Guess]] = {"nearest": nearest, "linear": linear}


class Surrogate(NamedTuple):
    """One defense on one data set.

    Attributes:
        defense, space, reference: the hypervolume's reference point among them.
        guess: of places in the unit cube.
        noise: deviations of (utility, leakage) around the guess, of means over the table's seeds.
        best: ``(n, 2)`` front of the guess over the whole space.
    """

    defense: str
    space: Space
    reference: tuple[float, float]
    guess: Guess
    noise: tuple[float, float]
    best: Floats

    def truth(self, params: Mapping[str, Any]) -> tuple[float, float]:
        """Return (utility, leakage) without noise."""
        found = self.guess(np.asarray([encoded(params, self.space.distributions())]))[0]
        return float(found[0]), float(found[1])

    def answer(self, params: Mapping[str, Any], seed: int) -> list[float]:
        """Return what a search is shown, (utility, leakage), then the truth; the same to all searches of a seed."""
        rng = np.random.default_rng([seed, zlib.crc32(f"{self.defense} {point_key(params)}".encode())])
        truth = np.asarray(self.truth(params))
        return [*(truth + rng.normal(size=2) * self.noise).tolist(), *truth.tolist()]

    @property
    def most(self) -> float:
        """The hypervolume of the best front."""
        return hypervolume(self.best, self.reference)

    @property
    def bands(self) -> set[int]:
        """The bands of leakage in which the best front has a setting."""
        return bands_of(self.best[:, 1])


def bands_of(leakages: Floats) -> set[int]:
    """Return the numbers of the bands of :data:`BAND` in which leakages lie."""
    return set(np.floor(np.clip(leakages, 0, 0.999) / BAND).astype(int).tolist())


def noise_of(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the deviations of utility and leakage means around what the seeds give to all settings alike."""
    utility = np.asarray([r.utility for r in rows])
    leakage = np.asarray([max(r.advantages.values(), key=sum) for r in rows])
    return _left(utility), _left(leakage)


def _left(values: Floats) -> float:
    settings, seeds = values.shape
    rest = values - values.mean(1, keepdims=True)
    rest = rest - rest.mean(0)
    return float(np.sqrt((rest**2).sum() / ((settings - 1) * (seeds - 1) * seeds)))


@cache
def surrogate(dataset: str, defense: str, kind: str) -> Surrogate:
    """Build one from a defense's rows."""
    rows, space = rows_of(dataset, defense), study_of(dataset, defense).space
    domains = space.distributions()
    places = np.asarray([encoded(r.params, domains) for r in rows])
    guess = GUESSES[kind](places, np.asarray([r.objectives for r in rows]))
    dense = np.asarray([encoded(p, domains) for p in settings_of(space, DENSE)])
    answers = guess(np.concatenate([places, dense]))
    return Surrogate(defense, space, REFERENCES[dataset], guess, noise_of(rows), answers[front(answers)])


def best_together(every: Sequence[Surrogate]) -> float:
    """Return the hypervolume of all best fronts together."""
    return hypervolume(np.concatenate([s.best for s in every]), every[0].reference)

"""Samplers that ``benchmarks/samplers.py`` compares and no search knows: variants of the shipped ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
from optuna._transform import _SearchSpaceTransform

from tune_vfl.samplers.base import Sampler, sampler


class Rotated(optuna.samplers.RandomSampler):
    """Halton points, moved round by a seed: each trial's number gives its place, in one base a parameter."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self._shift: dict[str, float] = {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        if param_name not in self._shift:
            self._shift[param_name] = float(self._rng.rng.uniform())
        base = (2, 3, 5, 7, 11, 13)[list(self._shift).index(param_name) % 6]
        place = (_reversed(trial.number, base) + self._shift[param_name]) % 1.0
        space = _SearchSpaceTransform({param_name: param_distribution}, transform_0_1=True)
        if isinstance(param_distribution, optuna.distributions.CategoricalDistribution):
            return param_distribution.choices[int(place * len(param_distribution.choices))]
        return space.untransform(np.asarray([place]))[param_name]


def _reversed(number: int, base: int) -> float:
    found, share = 0.0, 1.0 / base
    while number:
        number, digit = divmod(number, base)
        found += digit * share
        share /= base
    return found


@sampler("halton")
class Halton(Sampler):
    """Quasi-random draws."""

    summary = "Halton points, moved round by the seed"

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: Any = None) -> optuna.samplers.BaseSampler:
        return Rotated(seed)


@sampler("tpe_halton")
class TpeHalton(Sampler):
    """TPE whose first trials are quasi-random."""

    summary = "TPE after Halton points"

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: Any = None) -> optuna.samplers.BaseSampler:
        made = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        made._random_sampler = Rotated(seed)
        return made


@sampler("tpe_joint")
class TpeJoint(Sampler):
    """TPE with one density over all parameters."""

    summary = "multivariate TPE"

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: Any = None) -> optuna.samplers.BaseSampler:
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=True)


@sampler("tpe_early")
class TpeEarly(Sampler):
    """TPE that learns from its fourth trial on."""

    summary = "TPE after 4 trials"

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: Any = None) -> optuna.samplers.BaseSampler:
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=4)


@sampler("tpe_liarless")
class TpeLiarless(Sampler):
    """TPE that does not see what is running."""

    summary = "TPE without the liar"

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: Any = None) -> optuna.samplers.BaseSampler:
        return optuna.samplers.TPESampler(seed=seed, constant_liar=False)


@sampler("gp_coarse")
class GpCoarse(Sampler):
    """Gaussian processes with an eighth of the samples."""

    summary = "gp, 16 samples"

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: Any = None) -> optuna.samplers.BaseSampler:
        made = optuna.samplers.GPSampler(seed=seed)
        made._n_qmc_samples_ehvi, made._n_preliminary_samples = 16, 512
        return made

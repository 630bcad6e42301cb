"""Random sampler."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tune_vfl.samplers.base import ConstraintsOf, Sampler, sampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


@sampler("random")
class Random(Sampler):
    """Optuna's random draws."""

    summary = "independent draws, log-uniform on a log scale; worse fronts than tpe with 20 or 40 trials"

    blind = math.inf

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: ConstraintsOf | None = None) -> BaseSampler:
        """Return Optuna's sampler."""
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=seed)

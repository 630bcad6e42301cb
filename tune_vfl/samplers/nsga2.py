"""NSGA-II sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.samplers.base import ConstraintsOf, Sampler, sampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


@sampler("nsga2")
class Nsga2(Sampler):
    """Optuna's NSGA-II."""

    summary = (
        "NSGA-II, an evolutionary search for hundreds of trials, cheap to ask, with 40 no better than random; its "
        "population is a fifth of the budget, between 8 and 50"
    )

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: ConstraintsOf | None = None) -> BaseSampler:
        """Return Optuna's sampler."""
        import optuna

        size = max(8, min(50, budget // 5))
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=size, constraints_func=constraints)

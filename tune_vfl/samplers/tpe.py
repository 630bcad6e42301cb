"""TPE sampler, the default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.samplers.base import ConstraintsOf, Sampler, sampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


@sampler("tpe")
class Tpe(Sampler):
    """Optuna's multi-objective TPE. ``constant_liar`` counts running trials as bad ones, so that a pack spreads out."""

    summary = (
        "multi-objective tree-structured Parzen estimator, the default; avoids the neighborhood of what is still "
        "running"
    )

    blind = 10

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: ConstraintsOf | None = None) -> BaseSampler:
        """Return Optuna's sampler."""
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed, constant_liar=True, constraints_func=constraints)

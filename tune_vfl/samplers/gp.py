"""Sampler by Gaussian processes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tune_vfl.errors import SpecError
from tune_vfl.samplers.base import ConstraintsOf, Sampler, sampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


@sampler("gp")
class Gp(Sampler):
    """Optuna's Gaussian-process sampler, set up for noisy outcomes as those of trainings are."""

    summary = (
        "Gaussian processes with expected hypervolume improvement, what is running taken into account; half a CPU "
        "second a suggestion and more, seconds after a few hundred trials"
    )

    blind = 10

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: ConstraintsOf | None = None) -> BaseSampler:
        """Return Optuna's sampler.

        Raises:
            SpecError: when this Optuna cannot make it.
        """
        import torch  # noqa: F401 - without torch it would fail only at its first own suggestion, the eleventh trial
        from optuna import samplers

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return samplers.GPSampler(seed=seed, deterministic_objective=False, constraints_func=constraints)
        except (ImportError, AttributeError, TypeError) as error:
            raise SpecError(f"sampler.name: gp cannot run with this optuna ({error}); take tpe instead") from error

"""Optuna's samplers by name, set up for a few dozen trials that run several at a time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tune_vfl.errors import SpecError
from tune_vfl.seeds import derive

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS: dict[str, str] = {
    "tpe": "multi-objective tree-structured Parzen estimator; avoids the neighborhood of what is still running",
    "nsga2": "NSGA-II, an evolutionary search; its population is a fifth of the budget, between 8 and 50",
    "random": "independent draws, log-uniform on a log scale",
    "grid": "the replication grid of the search space, in shuffled order; ends when it is used up",
    "gp": "Gaussian processes with expected hypervolume improvement; seconds a suggestion after a few hundred trials",
}


def sampler_seed(seed: int, position: int) -> int:
    """Return the seed of a sampler that goes on after ``position`` trials.

    A fixed seed would make a resumed search repeat its start-up points.
    """
    return derive(seed, f"sampler/{position}") % 2**32


def make_sampler(name: str, *, seed: int, position: int, budget: int) -> BaseSampler:
    """Return a sampler for two objectives.

    Args:
        name: one of :data:`SAMPLERS`; ``grid`` proposes from a list and needs random draws only for its order.
        seed: the spec's.
        position: how many trials the ledger holds already.
        budget: the study's number of trials.

    Raises:
        SpecError: when Optuna cannot run it here.
    """
    from optuna import samplers

    start = sampler_seed(seed, position)
    if name == "tpe":
        return samplers.TPESampler(seed=start, constant_liar=True)
    if name == "nsga2":
        return samplers.NSGAIISampler(seed=start, population_size=max(8, min(50, budget // 5)))
    if name == "gp":
        return _gp(start)
    return samplers.RandomSampler(seed=start)


def _gp(seed: int) -> BaseSampler:
    import torch  # noqa: F401 - what Optuna's GP runs on; its absence would show only at the eleventh trial
    from optuna import samplers

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return samplers.GPSampler(seed=seed, deterministic_objective=False)
    except (ImportError, AttributeError, TypeError) as error:
        raise SpecError(f"sampler.name: gp cannot run with this optuna ({error}); take tpe instead") from error

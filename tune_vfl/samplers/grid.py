"""Grid sampler for replications."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tune_vfl.samplers.base import ConstraintsOf, Sampler, sampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from tune_vfl.spaces.space import Space


@sampler("grid")
class Grid(Sampler):
    """All combinations of listed values; a range without listed values gets evenly spread levels."""

    summary = (
        "published settings, then the replication grid of the search space in shuffled order; ends when it is used up; "
        "for replications, its few values find the poorest fronts"
    )

    blind = math.inf

    @classmethod
    def build(cls, seed: int, *, budget: int, constraints: ConstraintsOf | None = None) -> BaseSampler:
        """Return a placeholder sampler that never proposes: all points come from the list."""
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=seed)

    @classmethod
    def points(cls, space: Space, budget: int) -> list[dict[str, Any]]:
        """Return the grid: see :meth:`tune_vfl.spaces.space.Space.grid`."""
        return space.grid(budget)

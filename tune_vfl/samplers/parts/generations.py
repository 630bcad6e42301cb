"""Optuna's NSGA-II, which keeps count of its generations instead of going through all trials with every question.

The class has Optuna's name, because trials are marked with their generation under it, in ledgers too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from tune_vfl.samplers.base import ConstraintsOf


class NSGAIISampler(optuna.samplers.NSGAIISampler):
    """Proposes what Optuna's does, for one study in memory, all of whose trials have the same parameters.

    Complete trials that the study gets otherwise than by ``tell`` must be there before the first question.
    """

    def __init__(self, *, seed: int, population_size: int, constraints_func: ConstraintsOf | None = None) -> None:
        super().__init__(seed=seed, population_size=population_size, constraints_func=constraints_func)
        self._complete: dict[int, list[int]] | None = None
        self._space: dict[str, BaseDistribution] = {}

    def _members(self, study: Study) -> dict[int, list[int]]:
        """Return the ids of the complete trials of each generation."""
        if self._complete is None:
            self._complete = defaultdict(list)
            for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
                self._count(trial)
        return self._complete

    def _count(self, trial: FrozenTrial) -> None:
        generation = trial.system_attrs.get(self._get_generation_key())
        if generation is not None and self._complete is not None:
            self._complete[generation].append(trial._trial_id)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return what the first complete trial has settled."""
        if not self._space:
            self._space = super().infer_relative_search_space(study, trial)
        return dict(self._space)

    def get_trial_generation(self, study: Study, trial: FrozenTrial) -> int:
        """Return a trial's generation: the last one until that is full."""
        known = trial.system_attrs.get(self._get_generation_key())
        if known is not None:
            return int(known)
        members = self._members(study)
        last = max(members, default=0)
        generation = last + (len(members.get(last, ())) >= (self.population_size or 0))
        study._storage.set_trial_system_attr(trial._trial_id, self._get_generation_key(), generation)
        return generation

    def get_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        """Return the complete trials of a generation, by number."""
        return _trials(study, self._members(study).get(generation, ()))

    def get_parent_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        """Return the trials that a generation descends from, by number; they are chosen once."""
        if generation == 0:
            return []
        attrs = study._storage.get_study_system_attrs(study._study_id)
        chosen = attrs.get(f"{self._get_parent_cache_key_prefix()}{generation}")
        return super().get_parent_population(study, generation) if chosen is None else _trials(study, chosen)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Count a trial that is complete."""
        self._members(study)
        super().after_trial(study, trial, state, values)
        if state == TrialState.COMPLETE:
            self._count(trial)


def _trials(study: Study, ids: Any) -> list[FrozenTrial]:
    return [study._storage.get_trial(trial_id) for trial_id in sorted(ids)]

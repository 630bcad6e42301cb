"""Statistics of noisy successes: floors, advantages, intervals, leakage, fronts, confirmation.

numpy, and scipy's special functions once an interval is asked for. Functions can be imported from here:
``from tune_vfl.statistics import levels``. docs/statistics.md tells in plain words what the numbers mean.
"""

from __future__ import annotations

from tune_vfl.statistics.advantages import Advantage, Floor, advantage, chosen_floor, narrow, pseudo_values
from tune_vfl.statistics.choosing import Scale, compromise, export_choice, knee, worst_means
from tune_vfl.statistics.floors import auc_by_fold, cross_fitted, cross_fitted_auc, nearest_center, stratified_folds
from tune_vfl.statistics.fronts import (
    Own,
    Tolerances,
    candidates,
    dominance,
    leakage_differences,
    membership,
    membership_of_many,
    own_levels,
    worst_levels,
)
from tune_vfl.statistics.intervals import (
    Estimate,
    differences,
    differences_from,
    levels,
    levels_by_undefended,
    undecided,
)
from tune_vfl.statistics.leakage import (
    Bounds,
    Limits,
    bounds,
    chosen_attacks,
    clipped,
    cross_selected,
    leakage_bounds,
    max_of_means,
    mean_of_maxima,
    means_of_maxima,
    upper_bounds,
    worst_attack,
)
from tune_vfl.statistics.merging import merged, merged_of_many
from tune_vfl.statistics.nulls import center_null, effective_dimension, folded_auc_null, permutation_p_value
from tune_vfl.statistics.power import seeds_to_separate
from tune_vfl.statistics.rejects import Plan, plan, totals
from tune_vfl.statistics.rows import delong_variance, share_variance

__all__ = [
    "Advantage",
    "Bounds",
    "Estimate",
    "Floor",
    "Limits",
    "Own",
    "Plan",
    "Scale",
    "Tolerances",
    "advantage",
    "auc_by_fold",
    "bounds",
    "candidates",
    "center_null",
    "chosen_attacks",
    "chosen_floor",
    "clipped",
    "compromise",
    "cross_fitted",
    "cross_fitted_auc",
    "cross_selected",
    "delong_variance",
    "differences",
    "differences_from",
    "dominance",
    "effective_dimension",
    "export_choice",
    "folded_auc_null",
    "knee",
    "leakage_bounds",
    "leakage_differences",
    "levels",
    "levels_by_undefended",
    "max_of_means",
    "mean_of_maxima",
    "means_of_maxima",
    "membership",
    "membership_of_many",
    "merged",
    "merged_of_many",
    "narrow",
    "nearest_center",
    "own_levels",
    "permutation_p_value",
    "plan",
    "pseudo_values",
    "seeds_to_separate",
    "share_variance",
    "stratified_folds",
    "totals",
    "undecided",
    "upper_bounds",
    "worst_attack",
    "worst_levels",
    "worst_means",
]

"""Statistics of noisy successes: floors, advantages, intervals, leakage, fronts, confirmation.

numpy, and scipy's special functions once an interval is asked for. Functions can be imported from here:
``from tune_vfl.statistics import levels``. docs/statistics.md tells in plain words what the numbers mean.
"""

from __future__ import annotations

from tune_vfl.statistics.advantages import Advantage, Floor, advantage, chosen_floor, narrow, pseudo_values
from tune_vfl.statistics.choosing import Scale, compromise, knee, worst_means
from tune_vfl.statistics.floors import auc_by_fold, cross_fitted_auc_of_each, stratified_folds
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
    mean_of_maxima,
    means_of_maxima,
    upper_bounds,
    worst_attack,
)
from tune_vfl.statistics.merging import merged, merged_of_many
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
    "chosen_attacks",
    "chosen_floor",
    "clipped",
    "compromise",
    "cross_fitted_auc_of_each",
    "cross_selected",
    "delong_variance",
    "differences",
    "differences_from",
    "dominance",
    "knee",
    "leakage_bounds",
    "leakage_differences",
    "levels",
    "levels_by_undefended",
    "mean_of_maxima",
    "means_of_maxima",
    "membership",
    "membership_of_many",
    "merged",
    "merged_of_many",
    "narrow",
    "own_levels",
    "plan",
    "pseudo_values",
    "share_variance",
    "stratified_folds",
    "totals",
    "undecided",
    "upper_bounds",
    "worst_attack",
    "worst_levels",
    "worst_means",
]

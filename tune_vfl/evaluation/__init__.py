"""Train once, attack many: from a cell and settings of its defense to an outcome for each setting."""

from tune_vfl.evaluation.packs import (
    evaluate,
    evaluate_pack,
    evaluate_spec,
    measure_references,
    setting_of,
    stacks,
    trials_that_fit,
)

__all__ = [
    "evaluate",
    "evaluate_pack",
    "evaluate_spec",
    "measure_references",
    "setting_of",
    "stacks",
    "trials_that_fit",
]

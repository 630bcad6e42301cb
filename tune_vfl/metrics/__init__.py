"""Utility, attack success, and the geometry of a front.

Functions of one meaning can be imported from here: ``from tune_vfl.metrics import leak_auc``. Accuracy, F1 and top-5 of
a model (:mod:`tune_vfl.metrics.utility`) and of an attack (:mod:`tune_vfl.metrics.leakage`) stay in their modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.metrics.leakage import advantage, leak_auc
from tune_vfl.metrics.pareto import front, hypervolume, knee, ranks
from tune_vfl.metrics.reconstruction import mse, psnr, recovered, ssim
from tune_vfl.metrics.tradeoff import cap, dcs, leak_per_training_auc, utility_per_leak
from tune_vfl.metrics.utility import METRICS, auc, ovr_auc

if TYPE_CHECKING:
    from tune_vfl.metrics.correlation import class_distance_correlation, distance_correlation

__all__ = [
    "METRICS",
    "advantage",
    "auc",
    "cap",
    "class_distance_correlation",
    "dcs",
    "distance_correlation",
    "front",
    "hypervolume",
    "knee",
    "leak_auc",
    "leak_per_training_auc",
    "mse",
    "ovr_auc",
    "psnr",
    "ranks",
    "recovered",
    "ssim",
    "utility_per_leak",
]


def __getattr__(name: str) -> Any:
    if name in {"class_distance_correlation", "distance_correlation"}:  # they need torch, and a ledger is read without
        from tune_vfl.metrics import correlation

        return getattr(correlation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

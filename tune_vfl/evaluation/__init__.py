"""Train once, attack many: from a task and settings of its defense to an outcome for each setting.

Names are imported at first use: the start of a worker reads :mod:`tune_vfl.evaluation.attempts` alone, which
needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_vfl.evaluation.answer import evaluate, evaluate_spec, setting_of
    from tune_vfl.evaluation.packs import evaluate_pack
    from tune_vfl.evaluation.recorded import RecordedTraining
    from tune_vfl.evaluation.recorded_attacks import attack_recording
    from tune_vfl.evaluation.references import measure_references

__all__ = [
    "RecordedTraining",
    "attack_recording",
    "evaluate",
    "evaluate_pack",
    "evaluate_spec",
    "measure_references",
    "setting_of",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {
        "measure_references": "references",
        "evaluate_pack": "packs",
        "attack_recording": "recorded_attacks",
        "RecordedTraining": "recorded",
    }
    home = homes.get(name, "answer")
    return getattr(import_module(f"{__name__}.{home}"), name)

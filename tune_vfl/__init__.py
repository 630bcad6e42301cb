"""tune-vfl: which label-privacy defense, at which setting, is right for your vertical federated learning.

Importing this package is light: ray, mlflow, optuna, transformers and matplotlib are imported only by what uses them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tune_vfl.machine.installs import naming_the_install
from tune_vfl.machine.version import VERSION

if TYPE_CHECKING:
    from tune_vfl.config import load_config
    from tune_vfl.evaluation import evaluate
    from tune_vfl.service.notebook import load_study, search

__version__ = VERSION
__all__ = ["evaluate", "load_config", "load_study", "search"]

_HOME = {
    "evaluate": "tune_vfl.evaluation",
    "search": "tune_vfl.service.notebook",
    "load_study": "tune_vfl.service.notebook",
    "load_config": "tune_vfl.config",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        with naming_the_install():
            return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

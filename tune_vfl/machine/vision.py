"""Importing torchvision where its CUDA build meets a CPU build of torch, as package indexes easily bring about."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

# The two operators for which torchvision 0.28 registers shapes at import whether or not its compiled part was loaded.
_MISSING = ("torchvision::nms", "torchvision::qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[str] = []


def import_torchvision() -> ModuleType:
    """Import torchvision, also where the compiled parts of torch and torchvision do not fit.

    Call it before the first import of what imports torchvision itself, such as transformers. The missing operators are
    declared, not implemented: models, transforms and data sets work, box suppression does not.

    Raises:
        ImportError: when torchvision is not installed.
        RuntimeError: when its import fails for another reason.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [n for n in sys.modules if n == "torchvision" or n.startswith("torchvision.")]:
        del sys.modules[name]
    declare_missing_operators()
    return importlib.import_module("torchvision")


def declare_missing_operators() -> None:
    """Declare the operators that torchvision's compiled part would have brought; once a process."""
    import torch

    for name in _MISSING:
        if name not in _declared:
            torch.library.define(name, _SCHEMA)
            _declared.append(name)


def is_mended() -> bool:
    """Say whether operators had to be declared in this process."""
    return bool(_declared)

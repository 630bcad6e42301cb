"""Import torchvision even where its CUDA build is installed beside a CPU build of torch, as easily happens."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

# torchvision 0.28 registers shapes for these two operators at import, even when its compiled part was not loaded.
_MISSING = ("torchvision::nms", "torchvision::qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[str] = []


def import_torchvision() -> ModuleType:
    """Import torchvision, even where its compiled part does not load with this torch.

    Call this before importing a package that imports torchvision itself, such as transformers. The missing operators
    are declared without an implementation: models, transforms and data sets work, non-maximum suppression does not.

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
    """Declare, once in a process, the operators that torchvision's compiled part would have defined."""
    import torch

    for name in _MISSING:
        if name not in _declared:
            torch.library.define(name, _SCHEMA)
            _declared.append(name)


def is_mended() -> bool:
    """Say whether operators had to be declared in this process."""
    return bool(_declared)

"""Importing torchvision where its CUDA build meets a CPU build of torch, as package indexes easily bring about."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# The two operators for which torchvision 0.28 registers shapes at import whether or not its compiled part was loaded.
_SCHEMAS = tuple(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms"))
_declared: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """Import torchvision, and transformers' use of it, where the compiled parts of torch and torchvision do not fit.

    The missing operators are declared, not implemented: models, transforms and data sets work, box suppression does not.

    Raises:
        ImportError, RuntimeError: when the import fails for another reason.
    """
    import importlib
    import sys

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
    """Declare the schemas of operators that torchvision's compiled part would have brought; once a process."""
    import torch

    if _declared:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")  # kept, for it forgets its schemas when it is collected
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)


def is_mended() -> bool:
    """Say whether operators had to be declared in this process."""
    return bool(_declared)

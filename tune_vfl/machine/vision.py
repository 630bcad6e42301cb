"""Import torchvision even where its CUDA build is installed beside a CPU build of torch, as easily happens."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

# torchvision 0.28 registers shapes for these two operators at import, even when its compiled part was not loaded.
_MISSING = ("torchvision::nms", "torchvision::qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@cache
def is_mended() -> bool:
    """Import torchvision; return whether operators had to be declared for it.

    They have no implementation: models, transforms and data sets work, non-maximum suppression does not.

    Raises:
        ImportError: when torchvision is not installed.
        RuntimeError: when its import fails for another reason.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    else:
        return False
    import torch

    for name in _MISSING:
        torch.library.define(name, _SCHEMA)
    importlib.import_module("torchvision")
    return True


def import_torchvision() -> ModuleType:
    """Import torchvision; to be called before a package that imports it itself, such as transformers.

    Raises:
        ImportError: when torchvision is not installed.
        RuntimeError: when its import fails for another reason than a compiled part of another build.
    """
    is_mended()
    return importlib.import_module("torchvision")

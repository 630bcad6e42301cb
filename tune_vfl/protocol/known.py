"""Backpropagation of given gradients through autograd.

``torch.autograd.backward`` and ``grad`` take such gradients too, and import torch's compiler to compare shapes, which
costs a process a second and a half of a core. These hand them to the engine as those do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import _engine_run_backward as run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def take_back(tensors: Sequence[Tensor], gradients: Sequence[Tensor], *, retain_graph: bool = False) -> None:
    """Add to the leaves' ``grad`` what these gradients, each of its tensor's shape, come to.

    Raises:
        RuntimeError: for a gradient of another shape.
    """
    run(tuple(tensors), tuple(gradients), retain_graph, False, (), allow_unreachable=True, accumulate_grad=True)


def taken_back(
    tensors: Sequence[Tensor], gradients: Sequence[Tensor], inputs: Sequence[Tensor], *, retain_graph: bool = False
) -> list[Tensor]:
    """Return what the gradients come to for each input: 0 for one that no tensor depends on.

    Raises:
        RuntimeError: for a gradient of another shape.
    """
    given = tuple(tensors), tuple(gradients), retain_graph, False, tuple(inputs)
    found = run(*given, allow_unreachable=True, accumulate_grad=False)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]

"""Backpropagation of given gradients through autograd.

``torch.autograd.backward`` and ``grad`` take such gradients too, and import a computer algebra to compare shapes, which
costs a process half a second of a core. Here they are the gradients of a number that autograd itself begins from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function


class _Known(Function):
    """A number, 0, whose gradients are given."""

    @staticmethod
    def forward(ctx: Any, gradients: Sequence[Tensor], *tensors: Tensor) -> Tensor:
        ctx.gradients = gradients
        return tensors[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return None, *ctx.gradients


def _number(tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    for tensor, gradient in zip(tensors, gradients, strict=True):
        if tensor.shape != gradient.shape:
            raise RuntimeError(f"invalid gradient of shape {tuple(gradient.shape)}, expected {tuple(tensor.shape)}")
    return cast("Tensor", _Known.apply(gradients, *tensors))  # type: ignore[no-untyped-call]


def take_back(tensors: Sequence[Tensor], gradients: Sequence[Tensor], *, retain_graph: bool = False) -> None:
    """Accumulate in the leaves' ``grad`` the backpropagation of these gradients, one per tensor.

    Raises:
        RuntimeError: for a gradient of another shape.
    """
    torch.autograd.backward(_number(tensors, gradients), retain_graph=retain_graph)


def taken_back(
    tensors: Sequence[Tensor], gradients: Sequence[Tensor], inputs: Sequence[Tensor], *, retain_graph: bool = False
) -> list[Tensor]:
    """Return the backpropagated gradient of each input: 0 for one that no tensor depends on.

    Raises:
        RuntimeError: for a gradient of another shape.
    """
    found = torch.autograd.grad(_number(tensors, gradients), inputs, retain_graph=retain_graph, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]

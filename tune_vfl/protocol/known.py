"""Gradients that are known, handed to autograd to take further back.

``torch.autograd.backward`` takes such gradients too, and imports torch's compiler to compare shapes, which costs a
process a second and a half of a core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def known(tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Return a scalar, 0, with these gradients with respect to these tensors, each of its tensor's shape."""
    result: Tensor = _Known.apply(tuple(gradients), *tensors)  # type: ignore[no-untyped-call]
    return result


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradients: tuple[Tensor, ...], *tensors: Tensor) -> Tensor:
        ctx.gradients = gradients
        return tensors[0].new_zeros(())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *ctx.gradients)

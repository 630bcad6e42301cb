"""Distance correlation of rows with their classes, in machine code where there is a compiler."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tune_vfl.kernels.compiled import routine
from tune_vfl.metrics.correlation import class_distance_correlation


def class_correlation(x: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """Return :func:`tune_vfl.metrics.correlation.class_distance_correlation`, in machine code on a CPU that has it.

    Args:
        x: ``(*trials, B, d)``.
        y: ``(*trials, B)`` int64 classes from 0 to K - 1, or ``(B)`` that all trials share.
        num_classes: K.

    Returns:
        ``(*trials,)`` float64, differentiable once by ``x``. NaN, in machine code, where a row is not finite.
    """
    if x.device.type != "cpu" or native_correlation() is None:
        return class_distance_correlation(x, y, num_classes)
    found: Tensor = _Correlation.apply(x, y, num_classes)  # type: ignore[no-untyped-call]
    return found


class _Correlation(Function):
    """Value and gradient are found together."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, num_classes: int) -> Tensor:
        natively = native_correlation()
        assert natively is not None  # noqa: S101 - asked before
        rows = x.detach().double().contiguous()
        gradients, values = torch.empty_like(rows), rows.new_empty(x.shape[:-2])
        labels, (count, width) = y.long().expand(x.shape[:-1]).contiguous(), x.shape[-2:]
        if bool((labels < 0).any() | (labels >= num_classes).any()):
            raise IndexError(f"expected classes 0 to {num_classes - 1}, got {int(labels.min())} to {int(labels.max())}")
        sizes = values.numel(), count, width, num_classes
        natively(rows.data_ptr(), labels.data_ptr(), *sizes, values.data_ptr(), gradients.data_ptr())
        ctx.save_for_backward(gradients)
        ctx.dtype = x.dtype
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return (gradients * grad[..., None, None]).to(ctx.dtype), None, None


def native_correlation() -> Callable[..., None] | None:
    """Return what does it in machine code; None without.

    It is given where rows and classes lie, T, B, d and K, and where values and gradients go.
    """
    sizes = (c_int64,) * 4
    return routine("correlate", c_void_p, c_void_p, *sizes, c_void_p, c_void_p)

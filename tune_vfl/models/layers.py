"""Layers whose weights may carry leading axes, so that one pass trains a whole pack."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tune_vfl.seeds import Stream

M = TypeVar("M", bound=nn.Module)

_IN_PLACE = (nn.ReLU, nn.LeakyReLU)
NARROW = 16
"""A batched product whose result has fewer columns than this is 2-5x slower on a CPU than the same one transposed."""


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` of ``(T, n, k)`` and ``(T, k, m)``, contiguous, computed in the faster orientation."""
    if b.shape[-1] < NARROW <= a.shape[-2]:
        return torch.bmm(b.transpose(-1, -2), a.transpose(-1, -2)).transpose(-1, -2).contiguous()
    return torch.bmm(a, b)


class MemberProduct(torch.autograd.Function):
    """``x @ weight.T + bias`` for each member, with each of the three products in its faster orientation.

    Every result is contiguous: without that, element-wise operations on mixed layouts cost more than the products save.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Map ``(T, B, d_in)`` to ``(T, B, d_out)``."""
        ctx.save_for_backward(x, weight)
        return _product(x, weight.transpose(-1, -2)).add_(bias.unsqueeze(-2))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return the gradients of x (if needed), weight and bias."""
        x, weight = ctx.saved_tensors
        grad = grads[0].contiguous()
        to_x = _product(grad, weight) if ctx.needs_input_grad[0] else None
        return to_x, _product(grad.transpose(-1, -2), x), grad.sum(-2)


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``x @ weight.T + bias`` ``(*trials, B, d_out)``; with leading axes each member by its own weights."""
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    result: Tensor = MemberProduct.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return result


class Linear(nn.Module):
    """Affine map; each member of a pack has its own weights.

    Weights and bias start from U(-1/sqrt(d_in), 1/sqrt(d_in)), as torch's own linear layer does. ``weight`` is
    ``(*trials, d_out, d_in)`` and ``bias`` ``(*trials, d_out)``; the leading axes are those of the stream's draws.

    Args:
        d_in: width of the input ``(*trials, B, d_in)``.
        d_out: width of the output ``(*trials, B, d_out)``.
        stream: where the starting weights come from.
    """

    def __init__(self, d_in: int, d_out: int, *, stream: Stream) -> None:
        super().__init__()
        bound = 1 / math.sqrt(d_in)
        self.weight = nn.Parameter((stream.uniform(d_out, d_in) * 2 - 1) * bound)
        self.bias = nn.Parameter((stream.uniform(d_out) * 2 - 1) * bound)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d_in)`` to ``(*trials, B, d_out)``."""
        return affine(x, self.weight, self.bias)


class FlattenRows(nn.Module):
    """Flatten images ``(*trials, B, C, H, W)`` to rows ``(*trials, B, C*H*W)``; tables pass through."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._axes = len(shape)

    def forward(self, x: Tensor) -> Tensor:
        """Flatten the last axes of each row."""
        return x.flatten(-self._axes) if self._axes > 1 else x


class Dropout(nn.Module):
    """Zeros a share of the entries and scales the others up, in training mode only; its masks come from a named stream.

    Masks are drawn on the device of the stream, so that they are the same on whatever device the network is trained.

    Args:
        share: the probability that an entry of ``(*trials, B, d)`` is zeroed, in [0, 1).
        stream: where the masks come from; members of a pack that share a seed share them.
    """

    def __init__(self, share: float, *, stream: Stream) -> None:
        super().__init__()
        self._share = share
        self._stream = stream

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d)`` to the same shape."""
        if not self.training:
            return x
        kept = (self._stream.uniform(*x.shape[-2:]) >= self._share).to(x)
        return x * kept.div_(1 - self._share)

    def select(self, index: int) -> None:
        """Select one member of a pack; its later masks are the same as in the pack."""
        self._stream = self._stream.member(index)


def stack_of(
    widths: list[int], activation: type[nn.Module], *, stream: Stream, dropout: float = 0.0
) -> list[nn.Module]:
    """Return linear layers of the given widths with the activation between them, none after the last.

    Where ``dropout`` is not 0, each activation is followed by :class:`Dropout` with masks from streams of its own, so
    that starting weights do not depend on it.
    """
    layers: list[nn.Module] = []
    for i, (d_in, d_out) in enumerate(pairwise(widths)):
        if i:
            layers.append(activation(inplace=True) if activation in _IN_PLACE else activation())
        if i and dropout:
            layers.append(Dropout(dropout, stream=stream.child(f"dropout/{i}")))
        layers.append(Linear(d_in, d_out, stream=stream))
    return layers


def start_normal(layers: Iterable[nn.Module], stream: Stream) -> None:
    """Redraw the weights of linear layers from a stream, normal with a variance of 2 / d_in (He et al. 2015)."""
    for layer in layers:
        if isinstance(layer, Linear):
            d_out, d_in = layer.weight.shape[-2:]
            with torch.no_grad():
                layer.weight.copy_(stream.normal(d_out, d_in) * math.sqrt(2 / d_in))


def reseed(module: nn.Module, stream: Stream) -> nn.Module:
    """Redraw the weights of a module of torch's own layers from a stream: U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            with torch.no_grad():
                layer.weight.copy_((stream.uniform(*layer.weight.shape) * 2 - 1) * bound)
                if layer.bias is not None:
                    layer.bias.copy_((stream.uniform(*layer.bias.shape) * 2 - 1) * bound)
    return module


def select_member(module: M, index: int) -> M:
    """Return a copy of a stacked module that holds one member only, without the leading axis."""
    member = _selected(module, index)
    for part in member.modules():
        if isinstance(part, Dropout):
            part.select(index)
    return member


def select_members(module: M, indices: Tensor) -> M:
    """Return a copy of a stacked module that holds some members only, in the order of ``indices``.

    Of one member, an index without an axis, it is what :func:`select_member` returns. More are for use after a
    training: masks of dropout layers are not picked.
    """
    return _selected(module, indices) if indices.dim() else select_member(module, int(indices))


def _selected(module: M, at: int | Tensor) -> M:
    selected = copy.deepcopy(module)
    with torch.no_grad():
        for tensor in [*selected.parameters(), *selected.buffers()]:
            tensor.data = tensor.data[at].clone()
    return selected

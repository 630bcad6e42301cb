"""Chains of linear layers in a model, each as one node of autograd in place of one an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tune_vfl.kernels import passes
from tune_vfl.kernels.form import Activation, Form
from tune_vfl.kernels.native import native_passes
from tune_vfl.models.layers import FlattenRows, Linear


class Passes(Protocol):
    """Both passes: :mod:`tune_vfl.kernels.passes`, or the native ones."""

    def forward(self, form: Form, line: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Take rows through a chain."""

    def backward(
        self, form: Form, line: Tensor, x: Tensor, kept: list[Tensor], grad: Tensor, *, to_x: bool
    ) -> tuple[Tensor | None, Tensor]:
        """Take a gradient back."""


class Chain:
    """Linear layers one after the other, with ReLU or leaky ReLU between or behind them, for all members of a pack.

    Their parameters are moved into one line of numbers, of which they are views from then on: whoever reads or changes
    one reads or changes the other. Gradients are the line's.

    Attributes:
        line: all parameters, a leaf of autograd; what an optimizer is given.
    """

    def __init__(self, layers: list[tuple[Linear, Activation, float]]) -> None:
        first = layers[0][0].weight
        widths = (first.shape[-1], *(linear.weight.shape[-2] for linear, _, _ in layers))
        self.form = Form(first.shape[0], widths, tuple((a, s) for _, a, s in layers))
        natively = native_passes()
        self.passes: Passes = passes if natively is None or not natively.suits(self.form) else natively
        own = [p for linear, _, _ in layers for p in (linear.weight, linear.bias)]
        self.line = nn.Parameter(torch.cat([p.detach().flatten() for p in own]))
        self.replaced = own
        for (linear, _, _), layer in zip(layers, self.form.layers, strict=True):
            linear.weight.data = self.form.weight(self.line.data, layer)
            linear.bias.data = self.form.bias(self.line.data, layer)

    def __call__(self, x: Tensor) -> Tensor:
        """Map ``(T, B, d_in)``, or ``(S, B, d_in)`` of S seeds that the members share in turn, to ``(T, B, d_out)``."""
        if x.requires_grad:  # the gradient of shared rows is a sum over members
            x = passes.spread(x, self.form.members)
        result: Tensor = _Pass.apply(x, self.line, self)  # type: ignore[no-untyped-call]
        return result


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, line: Tensor, chain: Chain) -> Tensor:
        result, ctx.kept = chain.passes.forward(chain.form, line, x)
        ctx.chain = chain
        ctx.save_for_backward(x, line)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, line = ctx.saved_tensors
        chain: Chain = ctx.chain
        wanted = ctx.needs_input_grad[0]
        to_x, found = chain.passes.backward(chain.form, line, x, ctx.kept, grads[0], to_x=wanted)
        return to_x, found, None


class Steps:
    """A model as the training loop runs it: its chains as such, everything else as it is.

    Args:
        model: of a pack, on the CPU; anything but a sequence of layers is run as it is.

    Attributes:
        chains: in the order of the layers.
        shares_rows: whether it takes rows ``(S, B, ...)`` that members of a seed share.
    """

    def __init__(self, model: nn.Module) -> None:
        self.chains: list[Chain] = []
        self._parts: list[Callable[[Tensor], Tensor]] = [model]
        if type(model) is nn.Sequential:
            self._parts = list(self._parts_of(model))
        leading = [part for part in self._parts if not isinstance(part, FlattenRows)]
        self.shares_rows = bool(leading) and isinstance(leading[0], Chain)

    def __call__(self, x: Tensor) -> Tensor:
        """Do what the model does; ``(S, B, ...)`` where it shares rows."""
        for part in self._parts:
            x = part(x)
        return x

    def _parts_of(self, layers: Iterable[nn.Module]) -> Iterable[Callable[[Tensor], Tensor]]:
        taken: list[tuple[Linear, Activation, float]] = []
        for layer in layers:
            if _is_stacked(layer):
                taken.append((layer, "none", 0.0))  # type: ignore[arg-type]
                continue
            activation = _activation(layer)
            if taken and taken[-1][1] == "none" and activation is not None:
                taken[-1] = (taken[-1][0], *activation)
                continue
            if taken:
                yield self._chain(taken)
                taken = []
            yield layer
        if taken:
            yield self._chain(taken)

    def _chain(self, layers: list[tuple[Linear, Activation, float]]) -> Chain:
        self.chains.append(Chain(layers))
        return self.chains[-1]


def _is_stacked(layer: nn.Module) -> bool:
    if type(layer) is not Linear or layer.weight.dim() != 3:
        return False
    return all(p.dtype == torch.float32 and p.device.type == "cpu" and p.requires_grad for p in layer.parameters())


def _activation(layer: nn.Module) -> tuple[Activation, float] | None:
    if type(layer) is nn.ReLU:
        return "relu", 0.0
    if type(layer) is nn.LeakyReLU and layer.negative_slope > 0:
        return "leaky_relu", layer.negative_slope
    return None

"""Both passes through a chain in torch, rows last: what the native passes are held to, and what runs without them.

A product whose result has as many columns as a batch has rows is 2-5x faster than one with a layer's few.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tune_vfl.kernels.form import Form, Layer

NARROW = 16
"""A batched product whose result has fewer columns than this is slower on a CPU than the same one transposed."""


def forward(form: Form, line: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Take rows through a chain.

    Args:
        form: of the chain.
        line: its parameters.
        x: ``(T, B, d_in)``, or ``(S, B, d_in)`` where member i reads the rows of seed i modulo S.

    Returns:
        The last layer's output ``(T, B, d)``, contiguous, and what the pass back needs: what each layer read.
    """
    h = spread(x, form.members).transpose(-1, -2)
    kept = [h]
    for layer in form.layers:
        h = torch.baddbmm(form.bias(line, layer).unsqueeze(-1), form.weight(line, layer), h)
        if layer.activation == "relu":
            h.relu_()
        elif layer.activation == "leaky_relu":
            F.leaky_relu_(h, layer.slope)
        kept.append(h)
    return h.transpose(-1, -2).contiguous(), kept


def backward(
    form: Form, line: Tensor, x: Tensor, kept: list[Tensor], grad: Tensor, *, to_x: bool
) -> tuple[Tensor | None, Tensor]:
    """Take a gradient back through a chain.

    Args:
        form: of the chain.
        line: its parameters.
        x: as :func:`forward` was given it.
        kept: what that left.
        grad: ``(T, B, d)`` of the result.
        to_x: whether the gradient of x is wanted.

    Returns:
        The gradient ``(T, B, d_in)`` of x, and that of the parameters in the order of the line.
    """
    found = torch.empty_like(line)
    g = grad.transpose(-1, -2).contiguous()
    for position in range(len(form.layers) - 1, -1, -1):
        layer = form.layers[position]
        g = _before_activation(g, kept[position + 1], layer, into=g if position + 1 < len(form.layers) else None)
        torch.sum(g, -1, out=form.bias(found, layer))
        _weight_gradient(g, kept[position], form.weight(found, layer))
        if position or to_x:
            g = torch.bmm(form.weight(line, layer).transpose(-1, -2), g)
    return (g.transpose(-1, -2).contiguous() if to_x else None), found


def spread(x: Tensor, members: int) -> Tensor:
    """Return the rows ``(T, B, d)`` of the members; ``x`` has them by member, or by seed in the order of members."""
    return x if len(x) == members else x.repeat(members // len(x), *[1] * (x.dim() - 1))


def _before_activation(grad: Tensor, output: Tensor, layer: Layer, into: Tensor | None) -> Tensor:
    """Return the gradient before a layer's activation, in place of the one after it where that is ours to change."""
    to = torch.empty_like(grad) if into is None else into
    if layer.activation == "relu":
        return torch.ops.aten.threshold_backward(grad, output, 0, grad_input=to)  # type: ignore[no-any-return]
    if layer.activation == "leaky_relu":  # the output has the sign of the input
        return torch.ops.aten.leaky_relu_backward(grad, output, layer.slope, True, grad_input=to)  # type: ignore[no-any-return]
    return grad


def _weight_gradient(grad: Tensor, read: Tensor, into: Tensor) -> None:
    if read.shape[-2] < NARROW <= grad.shape[-2]:
        into.copy_(torch.bmm(read, grad.transpose(-1, -2)).transpose(-1, -2))
    else:
        torch.bmm(grad, read.transpose(-1, -2), out=into)

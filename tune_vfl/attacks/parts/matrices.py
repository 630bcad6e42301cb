"""Convolutions of small images as matrices: the same numbers, several times as fast on a processor."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

LARGEST = 2**17
"""Entries of a matrix up to which it is the faster of the two: some two to four times, and as fast as it beyond."""


class ConvolutionMatrix(nn.Module):
    """A convolution with fixed weights of images of one size, as an explicit matrix.

    Args:
        convolution: the layer to write out.
        shape: of one image, ``(C, H, W)``.
    """

    matrix: Tensor
    offset: Tensor

    def __init__(self, convolution: nn.Conv2d, shape: torch.Size) -> None:
        super().__init__()
        with torch.no_grad():
            offset = convolution(convolution.weight.new_zeros(1, *shape))
            unit = torch.eye(math.prod(shape)).to(offset).view(-1, *shape)
            answers = convolution(unit) - offset
        self._shape = offset.shape[1:]
        self.register_buffer("matrix", answers.flatten(1).T.contiguous())
        self.register_buffer("offset", offset.flatten())

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(B, C, H, W)`` to ``(B, C', H', W')``."""
        return nn.functional.linear(x.flatten(1), self.matrix, self.offset).view(-1, *self._shape)


def with_matrices(model: nn.Module, example: Tensor) -> nn.Module:
    """Return a copy of a model whose small convolutions are :class:`ConvolutionMatrix`; its weights must not change.

    Args:
        model: maps rows, each apart from the others.
        example: one row, with the axes that the model wants before it; only its shape counts.
    """
    model = copy.deepcopy(model)
    if not any(isinstance(m, nn.Conv2d) for m in model.modules()):
        return model
    sizes: dict[nn.Module, tuple[torch.Size, torch.Size]] = {}

    def look(layer: nn.Module, given: tuple[Any, ...], answer: Tensor) -> None:
        sizes.setdefault(layer, (given[0].shape[1:], answer.shape[1:]))

    hooks = [m.register_forward_hook(look) for m in model.modules() if isinstance(m, nn.Conv2d)]
    with torch.no_grad():
        model(example)
    for hook in hooks:
        hook.remove()
    return _replaced(model, sizes)


def _replaced(model: nn.Module, sizes: dict[nn.Module, tuple[torch.Size, torch.Size]]) -> nn.Module:
    for name, layer in list(model.named_modules()):
        if not isinstance(layer, nn.Conv2d) or layer not in sizes:
            continue
        given, answer = sizes[layer]
        if math.prod(given) * math.prod(answer) <= LARGEST:
            written_out = ConvolutionMatrix(layer, given)
            if not name:
                return written_out
            model.set_submodule(name, written_out)
    return model

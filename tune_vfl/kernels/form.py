"""What a chain of linear layers looks like, and how its parameters lie in one line of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from torch import Tensor

Activation = Literal["none", "relu", "leaky_relu"]


class Layer(NamedTuple):
    """One linear layer of a chain, and what follows it.

    Attributes:
        d_in, d_out: columns that it reads and gives.
        activation: what its output passes.
        slope: of a leaky ReLU below 0.
        weight, bias: where its parameters begin in the line; ``end`` is behind the last one.
    """

    d_in: int
    d_out: int
    activation: Activation
    slope: float
    weight: int
    bias: int
    end: int


@dataclass(frozen=True)
class Form:
    """A chain for all members of a pack.

    All members' weights of the first layer come first in the line, then their biases, then the second layer's.

    Attributes:
        members: T.
        widths: columns of the input, and of each layer's output.
        activations: what each layer's output passes, and the slope below 0 where it is leaky.
        memo: what passes remember of it.
    """

    members: int
    widths: tuple[int, ...]
    activations: tuple[tuple[Activation, float], ...]
    memo: dict[tuple[int, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, in order."""
        found: list[Layer] = []
        at = 0
        for (d_in, d_out), (activation, slope) in zip(pairwise(self.widths), self.activations, strict=True):
            bias = at + self.members * d_out * d_in
            end = bias + self.members * d_out
            found.append(Layer(d_in, d_out, activation, slope, at, bias, end))
            at = end
        return tuple(found)

    def weight(self, line: Tensor, layer: Layer) -> Tensor:
        """Return a layer's weights ``(T, d_out, d_in)``, or their gradients, as a view of the line."""
        return line[layer.weight : layer.bias].view(self.members, layer.d_out, layer.d_in)

    def bias(self, line: Tensor, layer: Layer) -> Tensor:
        """Return a layer's biases ``(T, d_out)``, or their gradients, as a view of the line."""
        return line[layer.bias : layer.end].view(self.members, layer.d_out)

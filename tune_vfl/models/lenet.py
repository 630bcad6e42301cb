"""LeNet, cut after its convolutions or between two of them: the passport papers' net for images."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.cutting import BATCH_NORM, CutNet, normed
from tune_vfl.models.images import CutOptions, without_weights
from tune_vfl.models.layers import reseed, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH

Activation = Literal["relu", "sigmoid", "tanh"]
_LAYERS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


class LenetOptions(CutOptions):
    """Channels of the convolutions, hidden widths of the top model, and the activation between layers."""

    embedding_dim: int = Field(64, ge=1, description="width of each party's embedding")
    channels: tuple[Width, ...] = Field((6, 16), min_length=1, description="channels of the 5x5 convolutions, in order")
    top_hidden: tuple[Width, ...] = Field(
        (120, 84), description="hidden widths of the top model; two make three layers"
    )
    activation: Activation | None = Field(
        None,
        description="between the layers; sigmoid and tanh, which have second derivatives, come with average pooling; "
        "none: relu, with max pooling",
    )
    batch_norm: bool | None = Field(None, description=BATCH_NORM)

    @property
    def cuts(self) -> tuple[int, ...]:
        """After each convolution."""
        return tuple(range(1, len(self.channels) + 1))

    @property
    def layer(self) -> type[nn.Module]:
        """The activation between layers."""
        return _LAYERS[self.activation or "relu"]

    def implied(self) -> dict[str, Any]:
        """Return the activation, unless one was given."""
        return {"activation": "relu"} if self.activation is None else {}


@model("lenet")
class Lenet(CutNet[LenetOptions]):
    """Two 5x5 convolutions, each with ReLU and 2x2 max pooling, and a linear map to the embedding; three layers on top.

    The convolutions are padded and the pooling rounds up, so that halves and small images keep all their pixels: 28x14
    becomes 7x4, 8x4 becomes 2x1. It is cut where FedAdOb's vertical federation cuts it (convolutions at the passive
    party, three linear layers at the label party); the linear map at the cut gives every image size an embedding of one
    width. ``cut: 1`` is its horizontal one, with one convolution above the cut as in its appendix, or with two as in
    its table II when ``channels`` lists three.
    """

    summary = "LeNet: two 5x5 convolutions at each party, three linear layers on top"
    reference = "LeCun et al. 1998; cut as in Gu et al. (FedAdOb), table II"
    Options = LenetOptions
    federations = BOTH

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the convolutional bottom for images of ``shape`` (C, H, W)."""
        if not self.joins:
            return super().bottom(shape, d_out, stream)
        convolutions = self.trunk(shape)
        with torch.no_grad():
            width = convolutions(torch.zeros(1, *shape)).shape[-1]
        return self._normed(reseed(nn.Sequential(*convolutions.children(), nn.Linear(width, d_out)), stream))

    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build the convolutions for images of ``shape`` (C, H, W), flattened."""
        options = self.options
        pool: type[nn.MaxPool2d | nn.AvgPool2d] = nn.MaxPool2d if options.layer is nn.ReLU else nn.AvgPool2d
        layers: list[nn.Module] = []
        for before, after in zip((shape[0], *options.channels), options.channels, strict=False):
            layers += [nn.Conv2d(before, after, 5, padding=2), options.layer(), pool(2, ceil_mode=True)]
        return nn.Sequential(*layers, nn.Flatten())

    def started(self, shape: tuple[int, ...], stream: Stream) -> nn.Module:
        """Build the convolutions with starting weights from U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
        return self._normed(reseed(without_weights(lambda: self.trunk(shape)), stream))

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        widths = [d_in, *self.options.top_hidden, d_out]
        return nn.Sequential(*stack_of(widths, self.options.layer, stream=stream))

    def _normed(self, layers: nn.Module) -> nn.Module:
        options = self.options
        return normed(layers, options.cut or len(options.channels)) if options.batch_norm else layers

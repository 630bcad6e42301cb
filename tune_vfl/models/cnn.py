"""A small convolutional net for small images."""

from __future__ import annotations

from pydantic import Field
from torch import nn

from tune_vfl.models.base import Architecture, ModelOptions, Width, model
from tune_vfl.models.layers import reseed, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH


class CnnOptions(ModelOptions):
    """Channels of the two convolutions, and hidden widths of the top model."""

    embedding_dim: int = Field(32, ge=1, description="width of each party's embedding")
    channels: tuple[Width, Width] = Field((16, 32), description="channels of the two convolutions")
    top_hidden: tuple[Width, ...] = Field((32,), description="hidden widths of the top model")


@model("cnn")
class SmallCnn(Architecture[CnnOptions]):
    """Two 3x3 convolutions with ReLU, average pooling to 4x2, one linear layer; an MLP on top."""

    summary = "two 3x3 convolutions and a linear layer"
    reference = "LeNet-like, sized for 8x8 digits"
    Options = CnnOptions
    federations = BOTH
    stackable = False
    modalities = frozenset({"image"})

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the convolutional bottom for images of ``shape`` (C, H, W)."""
        first, second = self.options.channels
        net = nn.Sequential(
            nn.Conv2d(shape[0], first, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d((4, 2)),
            nn.Flatten(),
            nn.Linear(second * 8, d_out),
        )
        return reseed(net, stream)

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.ReLU, stream=stream))

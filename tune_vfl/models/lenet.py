"""LeNet, cut after its convolutions: what the passport papers train on images."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from tune_vfl.models.base import Architecture, ModelOptions, Width, model
from tune_vfl.models.layers import reseed, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH


class LenetOptions(ModelOptions):
    """Channels of the two convolutions, and hidden widths of the top model."""

    embedding_dim: int = Field(64, ge=1, description="width of each party's embedding")
    channels: tuple[Width, Width] = Field((6, 16), description="channels of the two 5x5 convolutions")
    top_hidden: tuple[Width, ...] = Field(
        (120, 84), description="hidden widths of the top model; two make three layers"
    )


@model("lenet")
class Lenet(Architecture[LenetOptions]):
    """Two 5x5 convolutions, each with ReLU and 2x2 max pooling, and a linear map to the embedding; three layers on top.

    The convolutions are padded and the pooling rounds up, so that halves and small images keep all their pixels: 28x14
    becomes 7x4, 8x4 becomes 2x1. It is cut where FedAdOb cuts it (convolutions at the passive party, three linear
    layers at the label party); the linear map at the cut gives every image size an embedding of one width.
    """

    summary = "LeNet: two 5x5 convolutions at each party, three linear layers on top"
    reference = "LeCun et al. 1998; cut as in Gu et al. (FedAdOb), table II"
    Options = LenetOptions
    federations = BOTH
    stackable = False
    modalities = frozenset({"image"})

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the convolutional bottom for images of ``shape`` (C, H, W)."""
        first, second = self.options.channels
        convolutions = nn.Sequential(
            nn.Conv2d(shape[0], first, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Conv2d(first, second, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Flatten(),
        )
        with torch.no_grad():
            width = convolutions(torch.zeros(1, *shape)).shape[-1]
        return reseed(nn.Sequential(*convolutions, nn.Linear(width, d_out)), stream)

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.ReLU, stream=stream))

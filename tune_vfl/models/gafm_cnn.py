"""The six-layer net of the GAFM paper for gray photographs of skin: three convolutions, three linear layers."""

from __future__ import annotations

from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.images import DeepNet, DeepOptions
from tune_vfl.models.layers import stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH

_CHANNELS = (6, 16, 32)
_LEAST = 22
"""A shorter side of so many pixels is the least of which the published layers leave a place: 20, 10, 8, 4, 2, 1."""


class ChannelsLast(nn.Module):
    """Stores images with the channels of a pixel side by side: so few channels are convolved and pooled faster."""

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(B, C, H, W)`` to the same numbers."""
        return x.to(memory_format=torch.channels_last)


class GafmCnnOptions(DeepOptions):
    """Hidden widths of the linear layers; the embedding has 40 columns."""

    embedding_dim: int = Field(40, ge=1, description="width of the output that is sent, which passes a ReLU")
    bottom_hidden: tuple[Width, ...] = Field((120, 84), description="hidden widths after the convolutions")
    top_hidden: tuple[Width, ...] = Field((16,), description="hidden widths of the top model, the generator's shape")


@model("gafm_cnn")
class GafmCnn(DeepNet[GafmCnnOptions]):
    """Convolutions to 6, 16 and 32 channels, linear layers 120-84-40 with a ReLU after each; top ``40-16-1``.

    Two classes get one logit, as in ``gafm``. Kernels are 3x3 without padding, pooling 2x2: of 64x64 pixels 32x6x6
    numbers are left (appendix E.2). Images with a side below 22 pixels are padded and pooling rounds up, so that
    something is left of them.
    """

    summary = "three convolutions and 120-84-40 with ReLU, top 40-16-1 (GAFM's net for ISIC)"
    reference = "Han et al. 2023, GAFM, section 5 and appendix E.2"
    Options = GafmCnnOptions
    federations = BOTH
    binary_logit = True

    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build the convolutions for images of ``shape`` (C, H, W), flattened."""
        layers: list[nn.Module] = [ChannelsLast()]
        small = min(shape[1:]) < _LEAST
        for before, after in pairwise((shape[0], *_CHANNELS)):
            # ReLU of a maximum is the maximum of ReLUs, and has a quarter of the numbers to map.
            layers += [nn.Conv2d(before, after, 3, padding=int(small)), nn.MaxPool2d(2, ceil_mode=small), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten())

    def head(self, width: int, d_out: int, stream: Stream) -> list[nn.Module]:
        """Build ``width - hidden... - d_out`` with a ReLU on the output."""
        return [*stack_of([width, *self.options.bottom_hidden, d_out], nn.ReLU, stream=stream), nn.ReLU()]

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out`` with LeakyReLU; the sigmoid is in the loss."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.LeakyReLU, stream=stream))

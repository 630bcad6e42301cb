"""The net on which gradient inversion was shown first: smooth, without pooling, with large starting weights."""

from __future__ import annotations

from typing import TypeVar

import torch
from pydantic import Field
from torch import nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.cutting import CutNet
from tune_vfl.models.images import CutOptions, without_weights
from tune_vfl.models.layers import stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH

CHANNELS = 12
STRIDES = (2, 2, 1)
LARGEST = 0.5
"""Starting weights and biases are drawn from U(-0.5, 0.5)."""

M = TypeVar("M", bound=nn.Module)


class LenetDlgOptions(CutOptions):
    """The position of the cut; one linear layer on top, as published."""

    top_hidden: tuple[Width, ...] = Field((), description="hidden widths of the top model; none make it one layer")
    cut: int = Field(3, ge=1, description="how many of the three convolutions are the bottom's")

    @property
    def cuts(self) -> tuple[int, ...]:
        """After each of the three convolutions."""
        return (1, 2, 3)


@model("lenet_dlg")
class LenetDlg(CutNet[LenetDlgOptions]):
    """Three 5x5 convolutions of 12 channels in steps of 2, 2 and 1, each with a sigmoid, and one linear layer.

    Sigmoids have the second derivatives that matching gradients needs, and nothing pools, so that every pixel leaves
    its mark on the gradients. An image of 28x28 ends as 12x7x7, one of 3x32x32 as 12x8x8, the 768 numbers of the paper.
    The bottom sends its feature maps as they are. Steps, channels and starting weights are those of the released code.
    """

    summary = "DLG's LeNet: three 5x5 convolutions with sigmoids, no pooling, one linear layer on top"
    reference = "Zhu, Liu, Han 2019, Deep Leakage from Gradients, and its released code"
    Options = LenetDlgOptions
    federations = BOTH

    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build the convolutions for images of ``shape`` (C, H, W), flattened."""
        layers: list[nn.Module] = []
        for place, stride in enumerate(STRIDES):
            before = CHANNELS if place else shape[0]
            layers += [nn.Conv2d(before, CHANNELS, 5, stride=stride, padding=2), nn.Sigmoid()]
        return nn.Sequential(*layers, nn.Flatten())

    def started(self, shape: tuple[int, ...], stream: Stream) -> nn.Module:
        """Build the convolutions with starting weights from U(-0.5, 0.5)."""
        return _drawn(without_weights(lambda: self.trunk(shape)), stream)

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        layers = stack_of([d_in, *self.options.top_hidden, d_out], nn.Sigmoid, stream=stream)
        return _drawn(nn.Sequential(*layers), stream)


@torch.no_grad()
def _drawn(net: M, stream: Stream) -> M:
    for parameter in net.parameters():
        parameter.copy_((stream.uniform(*parameter.shape) * 2 - 1) * LARGEST)
    return net

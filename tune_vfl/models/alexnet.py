"""AlexNet, cut after its five convolutions or between two of them: FedAdOb's net for CIFAR-10."""

from __future__ import annotations

from pydantic import Field
from torch import nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.cutting import BATCH_NORM, CutNet, Stages, by_convolution, normed
from tune_vfl.models.images import PretrainedOptions
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH

LEAST = 64
"""Smallest shorter side of an image of which the published layers leave at least one place."""


class AlexnetOptions(PretrainedOptions):
    """Options of :class:`Alexnet`; one linear layer on top, as published."""

    embedding_dim: int = Field(64, ge=1, description="width of each party's embedding")
    top_hidden: tuple[Width, ...] = Field((), description="hidden widths of the top model; none make it one layer")
    batch_norm: bool | None = Field(None, description=BATCH_NORM)

    @property
    def cuts(self) -> tuple[int, ...]:
        """After each of the five convolutions."""
        return (1, 2, 3, 4, 5)


@model("alexnet")
class Alexnet(CutNet[AlexnetOptions]):
    """Five convolutions in torchvision's widths (64, 192, 384, 256, 256) and names, a linear map to the embedding.

    Images whose shorter side has less than 64 pixels are read by a 5x5 convolution that keeps all places, and pooled
    2x2, rounding up, where the net pools 3x3: 32x16 ends as 4x2 places, 28x14 as 4x2. Larger ones are read by the
    published 11x11 convolution in steps of 4 and end, averaged, as 6x6 places. The linear layers of 4,096 that follow
    there are left out. FedAdOb has one linear layer at the label party; here there is also a linear map at the cut,
    unless ``cut`` says where else to cut: after 1 convolution in FedAdOb's horizontal federation, after 5 in its
    vertical one.
    """

    summary = "AlexNet's five convolutions at each party (model.weights: pretrained), one linear layer on top"
    reference = "Krizhevsky 2014, One weird trick, as in torchvision; cut as in Gu et al. (FedAdOb), table II"
    Options = AlexnetOptions
    federations = BOTH

    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build the convolutions for images of ``shape`` (C, H, W), flattened."""
        small = min(shape[1:]) < LEAST
        first = nn.Conv2d(shape[0], 64, 5, padding=2) if small else nn.Conv2d(shape[0], 64, 11, stride=4, padding=2)
        features = nn.Sequential(
            *(first, nn.ReLU(), _pool(small)),
            *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), _pool(small)),
            *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), _pool(small)),
        )
        net = nn.Sequential()
        net.add_module("features", features)  # named as in torchvision's files of weights
        net.add_module("avgpool", nn.Identity() if small else nn.AdaptiveAvgPool2d(6))
        net.add_module("flatten", nn.Flatten())
        return net

    def started(self, shape: tuple[int, ...], stream: Stream) -> nn.Module:
        """Build the trunk with initial weights, and with the optional batch norm."""
        net = super().started(shape, stream)
        if self.options.batch_norm:  # afterward: files of weights know no norm
            net.add_module("features", normed(net.get_submodule("features"), self.options.cut or 5))
        return net

    def stages(self, trunk: nn.Module) -> Stages:
        """Return the five convolutions, the average with the last."""
        return by_convolution([*trunk.get_submodule("features").children(), trunk.get_submodule("avgpool")])


def _pool(small: bool) -> nn.Module:
    return nn.MaxPool2d(2, ceil_mode=True) if small else nn.MaxPool2d(3, stride=2)

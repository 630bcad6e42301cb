"""ResNet-18 at every party: KDk's bottom model for photographs, and FedAdOb's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import nn

from tune_vfl.machine.vision import import_torchvision
from tune_vfl.models.base import model
from tune_vfl.models.cutting import CutNet, Stages, by_block
from tune_vfl.models.images import BatchNorm, PretrainedOptions
from tune_vfl.spec import BOTH

SMALL = 32
"""Largest longer side of an image whose first layer keeps all places."""


class Resnet18Options(PretrainedOptions):
    """Options of :class:`Resnet18`."""

    @property
    def cuts(self) -> tuple[int, ...]:
        """After the first convolution, and after each of eight blocks of two."""
        return tuple(range(1, 18, 2))


@model("resnet18")
class Resnet18(CutNet[PretrainedOptions]):
    """torchvision's net with a linear map to the embedding in place of its last layer.

    Images of at most 32 pixels a side are read by a 3x3 convolution that keeps all places, without max pooling: 32x16
    ends as 4x2 places, 28x14 as 4x2, 8x4 as 1x1, whose mean is taken. Larger ones are reduced first, by the published
    7x7 convolution and max pooling. The top model is FCNN-4, as KDk has it; ``top_hidden: []`` is FedAdOb's cut: 17
    convolutions at the passive party and one linear layer at the other. Here there is also a linear map at the cut,
    unless ``cut`` says where else to cut: after the first convolution, or after a block.
    """

    summary = "ResNet-18 at each party (model.weights: pretrained), an MLP on top"
    reference = "He et al. 2016, Deep Residual Learning, by torchvision; cut as in KDk and Gu et al. (FedAdOb)"
    Options: ClassVar[type[PretrainedOptions]] = Resnet18Options
    federations = BOTH
    blocks: ClassVar[str] = "resnet18"

    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build the net without its last layer, for images of ``shape`` (C, H, W)."""
        import_torchvision()
        from torchvision import models

        make: Callable[..., Any] = getattr(models, self.blocks)
        net: nn.Module = make(weights=None, norm_layer=BatchNorm)
        net.fc = nn.Identity()
        if max(shape[1:]) <= SMALL:
            net.conv1 = nn.Conv2d(shape[0], 64, 3, padding=1, bias=False)
            net.maxpool = nn.Identity()
        else:
            net.conv1 = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False)
        return net

    def stages(self, trunk: nn.Module) -> Stages:
        """Return the first convolution with norm and pooling, and each block, the mean over places with the last."""
        first = [trunk.get_submodule(name) for name in ("conv1", "bn1", "relu", "maxpool")]
        blocks = [block for k in (1, 2, 3, 4) for block in trunk.get_submodule(f"layer{k}").children()]
        return by_block(first, blocks, trunk.get_submodule("avgpool"))

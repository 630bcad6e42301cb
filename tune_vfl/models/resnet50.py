"""ResNet-50 at every party; defense `kdk` trains this net as its teacher for images."""

from __future__ import annotations

from typing import ClassVar

from tune_vfl.models.base import model
from tune_vfl.models.images import PretrainedOptions
from tune_vfl.models.resnet18 import Resnet18


class Resnet50Options(PretrainedOptions):
    """Options of :class:`Resnet50`."""

    @property
    def cuts(self) -> tuple[int, ...]:
        """After the first convolution, and after each of sixteen blocks of three."""
        return tuple(range(1, 50, 3))


@model("resnet50")
class Resnet50(Resnet18):
    """As ``resnet18``, with bottleneck blocks of three convolutions, and 2,048 numbers before the linear map."""

    summary = "ResNet-50 at each party (model.weights: pretrained), an MLP on top"
    Options = Resnet50Options
    blocks: ClassVar[str] = "resnet50"

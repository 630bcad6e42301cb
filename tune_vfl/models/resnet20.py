"""ResNet-20 at every party: the small residual net for CIFAR, LADSG's bottom model and that of Fu et al."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tune_vfl.models.base import model
from tune_vfl.models.cutting import CutNet, Stages, by_block
from tune_vfl.models.images import BatchNorm, CutOptions
from tune_vfl.spec import BOTH

_STAGES = (16, 32, 64)
_BLOCKS = 3


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, and a shortcut without weights that skips places and fills new channels with zeros.

    Args:
        channels: the channels of the input.
        wider: the channels of the output.
        stride: of the first convolution, and of the shortcut.
    """

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, wider, 3, stride=stride, padding=1, bias=False)
        self.norm1 = BatchNorm(wider)
        self.conv2 = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.norm2 = BatchNorm(wider)
        self._stride, self._new = stride, wider - channels

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(B, C, H, W)`` to ``(B, C', H', W')``, H' and W' are H and W over the stride, rounded up."""
        inner = F.relu(self.norm1(self.conv1(x)))
        kept = x[..., :: self._stride, :: self._stride]
        # Half of the new channels come before the old ones, half after them.
        shortcut = F.pad(kept, (0, 0, 0, 0, self._new // 2, self._new - self._new // 2))
        return F.relu(self.norm2(self.conv2(inner)) + shortcut)


class Resnet20Options(CutOptions):
    """Options of :class:`Resnet20`."""

    @property
    def cuts(self) -> tuple[int, ...]:
        """After the first convolution, and after each of nine blocks of two."""
        return tuple(range(1, 20, 2))


@model("resnet20")
class Resnet20(CutNet[Resnet20Options]):
    """A 3x3 convolution, three stages of three blocks with 16, 32 and 64 channels, the mean over places.

    The second and the third stage halve both sides, rounding up: 32x16 ends as 8x4 places, 28x14 as 7x4. The top model
    is FCNN-4, in the widths of Fu et al. for ten classes; theirs has batch norms between its layers, this one has none.
    """

    summary = "ResNet-20 for small images at each party, an MLP on top"
    reference = "He et al. 2016, Deep Residual Learning, section 4.2, shortcuts A; cut as in Fu et al. 2022 and LADSG"
    Options = Resnet20Options
    federations = BOTH

    def trunk(self, shape: tuple[int, ...]) -> nn.Module:
        """Build the net without its last layer, for images of ``shape`` (C, H, W)."""
        layers: list[nn.Module] = [nn.Conv2d(shape[0], 16, 3, padding=1, bias=False), BatchNorm(16), nn.ReLU()]
        channels = 16
        for wider in _STAGES:
            for _ in range(_BLOCKS):
                layers.append(BasicBlock(channels, wider, stride=1 if wider == channels else 2))
                channels = wider
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def stages(self, trunk: nn.Module) -> Stages:
        """Return the first convolution with its norm, and each block, the mean over places with the last."""
        *layers, mean, _ = trunk.children()
        return by_block(layers[:3], layers[3:], mean)

"""Nets for images that can be cut between two convolutions: the bottom sends feature maps, and the top reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeVar, cast

import torch
from torch import nn

from tune_vfl.errors import SpecError
from tune_vfl.models.images import BatchNorm, CutOptions, DeepNet, InPortions
from tune_vfl.seeds import Stream

Stages = dict[int, nn.Module]
"""The parts of a trunk, in order, each by how many convolutions the net has up to its end."""

C_co = TypeVar("C_co", bound=CutOptions, covariant=True)

BATCH_NORM = "a batch norm behind the bottom's last convolution, as FedAdOb gives nets without passports; none: no norm"
"""Describes the option of nets that have no batch norms of their own."""


class CutNet(DeepNet[C_co]):
    """Base class of deep nets cut behind all convolutions, or with the option ``cut`` between two of them.

    A convolution comes with what follows it up to the next one: norm, activation, pooling. Cut, the bottom sends its
    feature maps ``(C, H, W)``, flattened to a row, so that the width of what is sent follows from the image; there is
    no linear map at the cut. The top takes the maps of one party, as they are in a horizontal federation, and in a
    vertical one where a single party has all the features.
    """

    def stages(self, trunk: nn.Module) -> Stages:
        """Return the stages of a trunk; in sequence and flattened, they are the trunk.

        Here each convolution of a sequence is a part.
        """
        return by_convolution(trunk.children())

    @property
    def joins(self) -> bool:
        """Whether there is a linear map at the cut, so that the top model reads numbers side by side."""
        return self.options.cut is None

    def width(self, shape: tuple[int, ...], num_classes: int) -> int:
        """Return how many numbers the feature maps at the cut are."""
        return super().width(shape, num_classes) if self.joins else math.prod(self.sent(shape))

    def sent(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape ``(C, H, W)`` of the feature maps that a bottom sends of an image of ``shape``."""
        return self._maps(shape)[0]

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the bottom for images of ``shape`` (C, H, W).

        Raises:
            SpecError: where the options name weights that cannot be read, or that are another net's.
        """
        if self.joins:
            return super().bottom(shape, d_out, stream)
        below, _ = self._parted(self.started(shape, stream))
        return nn.Sequential(InPortions(below.train()), nn.Flatten())

    def top_of(self, shapes: Sequence[tuple[int, ...]], d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build the convolutions above the cut and the linear layers.

        Raises:
            SpecError: with a cut, where there is anything but the feature maps of one party to read.
        """
        if self.joins:
            return super().top_of(shapes, d_in, d_out, stream)
        sent, last = self._maps(shapes[0])
        if len(shapes) > 1 or d_in != math.prod(sent):
            raise SpecError("model.cut: the top model reads the feature maps of one party and nothing beside them")
        _, above = self._parted(self.started(shapes[0], stream))
        linear = self.top(math.prod(last), d_out, stream)
        return nn.Sequential(nn.Unflatten(-1, sent), InPortions(above.train()), nn.Flatten(), linear)

    def _parted(self, trunk: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
        stages, cut = self.stages(trunk), self.options.cut or 0
        below = [part for count, part in stages.items() if count <= cut]
        return nn.Sequential(*below), nn.Sequential(*list(stages.values())[len(below) :])

    def _maps(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of one image at the cut and after the last stage."""
        with torch.device("meta"), torch.no_grad():  # shapes alone: nothing is drawn or computed
            below, above = self._parted(self.trunk(shape).eval())
            sent = below(torch.zeros(1, *shape))
            return tuple(sent.shape[1:]), tuple(above(sent).shape[1:])


def normed(layers: nn.Module, place: int) -> nn.Sequential:
    """Return a sequence with a batch norm after one of its convolutions.

    Args:
        layers: the sequence, whose layers are taken over.
        place: which of its convolutions, from 1.
    """
    found: list[nn.Module] = []
    for layer in layers.children():
        found.append(layer)
        if isinstance(layer, nn.Conv2d) and (place := place - 1) == 0:
            found.append(BatchNorm(layer.out_channels))
    return nn.Sequential(*found)


def by_convolution(parts: Iterable[nn.Module]) -> Stages:
    """Split a sequence at its convolutions, each with all layers up to the next one; flattening is left out."""
    groups: list[list[nn.Module]] = []
    for part in parts:
        if isinstance(part, nn.Conv2d):
            groups.append([])
        if not isinstance(part, nn.Flatten):
            groups[-1].append(part)
    return {count: nn.Sequential(*group) for count, group in enumerate(groups, 1)}


def by_block(first: Sequence[nn.Module], blocks: Sequence[nn.Module], end: nn.Module) -> Stages:
    """Split a residual net into its first convolution and its blocks, the end with the last.

    Convolutions of shortcuts do not count, as in the nets' names.
    """
    own = [sum(isinstance(part, nn.Conv2d) for part in block.children()) for block in blocks]
    counts = accumulate(own, initial=1)
    last = nn.Sequential(blocks[-1], end)
    parts = [nn.Sequential(*first), *blocks[:-1], last]
    return cast("Stages", dict(zip(counts, parts, strict=True)))

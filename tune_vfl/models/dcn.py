"""Deep & Cross for tables with categories: products of columns beside an MLP, FedAdOb's net for Criteo."""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.fields import FieldNet, FieldOptions, FieldVectors
from tune_vfl.models.layers import Linear, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH


class DcnOptions(FieldOptions):
    """Two hidden layers and the layer to the embedding, so three; the top model is one layer. Both as in FedAdOb."""

    bottom_hidden: tuple[Width, ...] = Field((64, 32), min_length=1, description="hidden widths of the deep part")
    crosses: int = Field(2, ge=1, description="cross layers; products are of up to one column more than that")


class Cross(nn.Module):
    """``x0 (w . x) + b + x``: the output of the layer before, multiplied with the input once more.

    Args:
        width: of ``x0`` and ``x``.
        stream: where the starting weights come from.
    """

    def __init__(self, width: int, *, stream: Stream) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter((stream.uniform(width, 1) * 2 - 1) * bound)
        self.bias = nn.Parameter((stream.uniform(1, width) * 2 - 1) * bound)

    def forward(self, x0: Tensor, x: Tensor) -> Tensor:
        """Map two ``(*trials, B, width)`` to one."""
        return x0 * (x @ self.weight) + self.bias + x


class DeepAndCross(nn.Module):
    """Cross layers and, beside them, an MLP, both on the vectors of the fields; one linear layer to the embedding.

    Args:
        fields: how many columns each field became.
        d_out: width of the embedding.
        options: of the architecture.
        stream: where the starting weights come from.
    """

    def __init__(self, fields: tuple[int, ...], d_out: int, options: DcnOptions, *, stream: Stream) -> None:
        super().__init__()
        self.vectors = FieldVectors(fields, options.category_dim, stream=stream)
        width = self.vectors.width
        self.crosses = nn.ModuleList([Cross(width, stream=stream) for _ in range(options.crosses)])
        self.deep = nn.Sequential(*stack_of([width, *options.bottom_hidden], nn.ReLU, stream=stream), nn.ReLU())
        self.out = Linear(width + options.bottom_hidden[-1], d_out, stream=stream)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d)`` to ``(*trials, B, d_out)``."""
        fields = self.vectors(x)
        crossed = fields
        for cross in self.crosses:
            crossed = cross(fields, crossed)
        embedding: Tensor = self.out(torch.cat([crossed, self.deep(fields)], -1))
        return embedding


@model("dcn")
class Dcn(FieldNet[DcnOptions]):
    """For each party a Deep & Cross net on its own columns, three linear layers deep, one linear layer on top.

    Columns of different parties are not multiplied. They meet in the top model, which with one layer only adds them up;
    with ``top_hidden`` it can combine them.
    """

    summary = "Deep & Cross at each party: products of columns beside an MLP, one linear layer on top"
    reference = (
        "Wang et al. 2017, Deep & Cross Network for Ad Click Predictions; cut as in Gu et al. (FedAdOb), table II"
    )
    Options = DcnOptions
    federations = BOTH

    def bottom_of_fields(self, fields: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the cross layers, the MLP and the linear layer that joins them."""
        return DeepAndCross(fields, d_out, self.options, stream=stream)

"""Wide & Deep for tables with categories: a linear map of the columns plus a net on learned vectors."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.fields import FieldNet, FieldOptions, FieldVectors
from tune_vfl.models.layers import Linear, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH


class WideDeepOptions(FieldOptions):
    """GAFM's net for Criteo, which sends one number: ``embedding_dim: 1``."""

    bottom_hidden: tuple[Width, ...] = Field((16, 16), description="hidden widths of the deep part")
    top_hidden: tuple[Width, ...] = Field((16,), description="hidden widths of the top model, the generator's shape")
    wide_start: Literal["normal"] | None = Field(
        None,
        description="normal: weights of the wide part start from N(0, 1), as in GAFM's released code; none: uniform "
        "within 1 / sqrt(columns), as torch's linear layers do",
    )


class WideAndDeep(nn.Module):
    """``wide(columns) + deep(vectors of the fields)``.

    Args:
        fields: how many columns each field became.
        d_out: width of the embedding.
        options: of the architecture.
        stream: where the starting weights come from.
    """

    def __init__(self, fields: tuple[int, ...], d_out: int, options: WideDeepOptions, *, stream: Stream) -> None:
        super().__init__()
        self.wide = Linear(sum(fields), d_out, stream=stream)
        if options.wide_start == "normal":
            with torch.no_grad():
                self.wide.weight.copy_(stream.child("wide").normal(d_out, sum(fields)))
        self.vectors = FieldVectors(fields, options.category_dim, stream=stream)
        widths = [self.vectors.width, *options.bottom_hidden, d_out]
        self.deep = nn.Sequential(*stack_of(widths, nn.ReLU, stream=stream))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d)`` to ``(*trials, B, d_out)``."""
        embedding: Tensor = self.wide(x) + self.deep(self.vectors(x))
        return embedding


@model("wide_deep")
class WideDeep(FieldNet[WideDeepOptions]):
    """For each party a whole Wide & Deep net on its own columns; GAFM's generator, ``1-16-1``, gives the top its shape.

    The wide part has the columns themselves. The paper adds products of columns that it chooses by hand.
    """

    summary = "Wide & Deep at each party: a linear map of the columns, and an MLP on vectors of categories"
    reference = "Cheng et al. 2016, Wide & Deep Learning for Recommender Systems; sizes of Han et al. 2023 (GAFM)"
    Options = WideDeepOptions
    federations = BOTH

    def bottom_of_fields(self, fields: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build both parts."""
        return WideAndDeep(fields, d_out, self.options, stream=stream)

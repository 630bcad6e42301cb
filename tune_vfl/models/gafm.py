"""The small tabular net of the GAFM paper: a bottom model that ends in one sigmoid unit."""

from __future__ import annotations

from pydantic import Field
from torch import nn

from tune_vfl.models.base import Architecture, ModelOptions, model
from tune_vfl.models.layers import FlattenRows, stack_of
from tune_vfl.seeds import Stream


class GafmOptions(ModelOptions):
    """One hidden layer at each side, as published."""

    embedding_dim: int = Field(1, ge=1, description="width of the sigmoid output that is sent")
    bottom_hidden: tuple[int, ...] = Field((16,), description="hidden widths of the bottom model")
    top_hidden: tuple[int, ...] = Field((16,), description="hidden widths of the top model, the generator's shape")


@model("gafm")
class GafmNet(Architecture[GafmOptions]):
    """Bottom ``d-16-1`` with LeakyReLU and a sigmoid; top ``1-16-1``; binary targets as one logit (Han et al. 2023).

    The trainable top of the generator's shape on the sigmoid output is what the paper's undefended rows come out of; a
    cross-entropy directly on the bottom's output does not give them (docs/fidelity.md).
    """

    summary = "bottom d-16-1 with sigmoid, top 1-16-1 (GAFM's Spambase net)"
    reference = "Han et al. 2023, GAFM, section 5"
    Options = GafmOptions
    binary_logit = True

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build ``d - hidden - d_out`` with a sigmoid on the output."""
        d_in = 1
        for n in shape:
            d_in *= n
        layers = stack_of([d_in, *self.options.bottom_hidden, d_out], nn.LeakyReLU, stream=stream)
        return nn.Sequential(FlattenRows(shape), *layers, nn.Sigmoid())

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden - d_out``; the sigmoid is in the loss."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.LeakyReLU, stream=stream))

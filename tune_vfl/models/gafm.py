"""The tabular nets of the GAFM paper: a bottom model that ends in one sigmoid unit."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import nn

from tune_vfl.models.base import Architecture, ModelOptions, Width, model
from tune_vfl.models.layers import FlattenRows, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH

_ACTIVATIONS: dict[str, type[nn.ReLU] | type[nn.LeakyReLU]] = {"leaky_relu": nn.LeakyReLU, "relu": nn.ReLU}


class GafmOptions(ModelOptions):
    """The net for Spambase; the one for IMDB is bottom_hidden [256, 128], activation relu, dropout 0.5."""

    embedding_dim: int = Field(1, ge=1, description="width of the sigmoid output that is sent")
    bottom_hidden: tuple[Width, ...] = Field((16,), description="hidden widths of the bottom model")
    top_hidden: tuple[Width, ...] = Field((16,), description="hidden widths of the top model, the generator's shape")
    activation: Literal["leaky_relu", "relu"] = Field("leaky_relu", description="between the bottom's layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of each hidden layer of the bottom zeroed in training")


@model("gafm")
class GafmNet(Architecture[GafmOptions]):
    """Bottom ``d-16-1`` with LeakyReLU and a sigmoid; top ``1-16-1``; binary targets as one logit (Han et al. 2023).

    For IMDB the paper has ``500-256-128-1`` with ReLU and dropout .5; the top is the same with every bottom.

    The undefended model has this trainable top, in the shape of the generator, on the sigmoid output: that reproduces
    the paper's undefended rows. A cross-entropy directly on the bottom's output does not (docs/findings.md).
    """

    summary = "bottom d-16-1 with sigmoid, top 1-16-1 (GAFM's nets for Spambase and, by options, IMDB)"
    reference = "Han et al. 2023, GAFM, section 5 and appendix"
    Options = GafmOptions
    federations = BOTH
    binary_logit = True

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build ``d - hidden - d_out`` with a sigmoid on the output."""
        d_in = 1
        for n in shape:
            d_in *= n
        options = self.options
        layers = stack_of(
            [d_in, *options.bottom_hidden, d_out],
            _ACTIVATIONS[options.activation],
            stream=stream,
            dropout=options.dropout,
        )
        return nn.Sequential(FlattenRows(shape), *layers, nn.Sigmoid())

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden - d_out``; the sigmoid is in the loss."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.LeakyReLU, stream=stream))

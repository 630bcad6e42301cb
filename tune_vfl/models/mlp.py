"""Multi-layer perceptrons at every party: the default for tables, and for images flattened to rows."""

from __future__ import annotations

from pydantic import Field
from torch import nn

from tune_vfl.models.base import Architecture, ModelOptions, model
from tune_vfl.models.layers import FlattenRows, stack_of
from tune_vfl.seeds import Stream


class MlpOptions(ModelOptions):
    """Widths of the hidden layers; an empty list makes a linear map."""

    bottom_hidden: tuple[int, ...] = Field((32,), description="hidden widths of each bottom model")
    top_hidden: tuple[int, ...] = Field((32,), description="hidden widths of the top model")


@model("mlp")
class Mlp(Architecture[MlpOptions]):
    """ReLU between linear layers, none on the embedding and none on the logits."""

    summary = "ReLU multi-layer perceptrons"
    reference = "the usual tabular network of the field"
    Options = MlpOptions

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build ``prod(shape) - hidden... - d_out``."""
        d_in = 1
        for n in shape:
            d_in *= n
        widths = [d_in, *self.options.bottom_hidden, d_out]
        return nn.Sequential(FlattenRows(shape), *stack_of(widths, nn.ReLU, stream=stream))

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.ReLU, stream=stream))

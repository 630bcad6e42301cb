"""Multi-layer perceptrons at every party: the default for tables, and for images flattened to rows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from torch import nn

from tune_vfl.models.base import Architecture, ModelOptions, Width, model
from tune_vfl.models.layers import FlattenRows, stack_of, start_normal
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH


class MlpOptions(ModelOptions):
    """Widths of the hidden layers; an empty list makes a linear map. ``cut`` moves layers between bottom and top."""

    bottom_hidden: tuple[Width, ...] = Field((32,), description="hidden widths of each bottom model")
    top_hidden: tuple[Width, ...] = Field((32,), description="hidden widths of the top model")
    cut: int | None = Field(
        None,
        ge=0,
        description="how many of all these hidden layers are the bottom's; by default those of bottom_hidden",
    )
    top_start: Literal["he"] | None = Field(
        None,
        description="he: the top model's weights start normal with a variance of 2 / inputs, as in the released code "
        "of Fu et al. 2022; none: uniform within 1 / sqrt(inputs), as torch's",
    )

    @field_validator("cut")
    @classmethod
    def _leaves_layers_where_they_are_used(cls, cut: int | None, info: ValidationInfo) -> int | None:
        layers = len(info.data.get("bottom_hidden", ())) + len(info.data.get("top_hidden", ()))
        if cut is not None and info.data.get("top") == "none":
            raise ValueError("without a top model there is nothing to cut")
        if cut is not None and cut > layers:
            raise ValueError(f"expected at most the {layers} hidden layers of bottom_hidden and top_hidden")
        return cut

    @property
    def hidden(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The hidden widths of each bottom model, and those of the top model, cut at ``cut``."""
        layers, at = self.bottom_hidden + self.top_hidden, self.implied().get("cut", self.cut)
        return layers[:at], layers[at:]

    def implied(self) -> dict[str, Any]:
        """Return the cut after ``bottom_hidden``, unless one was given."""
        return {"cut": len(self.bottom_hidden)} if self.cut is None else {}


@model("mlp")
class Mlp(Architecture[MlpOptions]):
    """Linear layers with ReLU between them, without activation on the embedding and on the logits."""

    summary = "ReLU multi-layer perceptrons"
    reference = "the usual tabular network of the field"
    Options = MlpOptions
    federations = BOTH

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build ``prod(shape) - hidden... - d_out``."""
        d_in = 1
        for n in shape:
            d_in *= n
        widths = [d_in, *self.options.hidden[0], d_out]
        return nn.Sequential(FlattenRows(shape), *stack_of(widths, nn.ReLU, stream=stream))

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        layers = stack_of([d_in, *self.options.hidden[1], d_out], nn.ReLU, stream=stream)
        if self.options.top_start == "he":
            start_normal(layers, stream.child("he"))
        return nn.Sequential(*layers)

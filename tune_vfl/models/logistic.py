"""Logistic regression over the columns of all parties: what scorecards are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.models.base import Architecture, ModelOptions, RowsOfParties, VflNetwork, build, model
from tune_vfl.models.layers import FlattenRows
from tune_vfl.seeds import Stream
from tune_vfl.spec import SUMS, VERTICAL, FederationName, Training


class LogisticOptions(ModelOptions):
    """Options of networks stay what they are: each party adds its columns' weighted sum to the logits."""

    aggregation: Literal["sum"] = Field("sum", exclude=True, description="of networks alone; leave it out")
    embedding_dim: Literal[1] = Field(1, exclude=True, description="of networks alone; leave it out")
    top: Literal["none"] = Field("none", description="the parties' sums are the logits; leave it out")


class Weights(nn.Module):
    """Weighted sums of columns ``(*trials, B, d)``, one for each logit, from weights ``(*trials, K, d)`` of 0 on."""

    def __init__(self, d_in: int, d_out: int, *, stream: Stream) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros_like(stream.uniform(d_out, d_in)))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d)`` to ``(*trials, B, K)``."""
        return x @ self.weight.mT


class Intercept(nn.Module):
    """The label party's constant ``(*trials, K)`` in each logit, from 0 on."""

    def __init__(self, width: int, *, stream: Stream) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros_like(stream.uniform(width)))

    def forward(self, logits: Tensor) -> Tensor:
        """Add it to ``(*trials, B, K)``."""
        return logits + self.bias.unsqueeze(-2)


@model("logistic")
class Logistic(Architecture[LogisticOptions]):
    """Logistic regression, multinomial for more than two classes, with the intercept at the label party.

    It brings the federation ``sums`` along: a passive party learns, for each batch, the sum of residual times own
    columns, as with additively encrypted residuals in FATE and Angel PowerFL. In a ``vertical`` federation it learns
    each row's residual. Epochs, batches, learning rate and L2 (``weight_decay``) are those of ``training``.
    """

    summary = "logistic regression over all parties' columns (scorecards)"
    reference = "Hardy et al. 2017, Private federated learning on vertically partitioned data"
    Options = LogisticOptions
    federations: ClassVar[frozenset[FederationName]] = VERTICAL | SUMS
    brings = "sums"
    recipe = Training(epochs=30, batch_size=256, lr=0.1, lr_schedule="inverse_sqrt")

    def outputs(self, num_classes: int) -> int:
        """Return the number of logits for K classes: one for two of them."""
        return 1 if self.options.head == "auto" and num_classes == 2 else super().outputs(num_classes)

    def network(self, **rows: Unpack[RowsOfParties]) -> VflNetwork:
        """Build the weights of each party, and the label party's intercept in the place of a top model."""
        made, streams = build(self, **rows), rows["streams"]
        own = self.top(1, self.outputs(rows["num_classes"]), streams["init/top"])
        return VflNetwork([*made.bottoms], made.own_bottom, own, "sum")

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the weights of ``prod(shape)`` columns."""
        return nn.Sequential(FlattenRows(shape), Weights(torch.Size(shape).numel(), d_out, stream=stream))

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build the intercepts."""
        return Intercept(d_out, stream=stream)

    def top_of(self, shapes: Sequence[tuple[int, ...]], d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build the intercepts, whatever the parties' columns."""
        return self.top(d_in, d_out, stream)

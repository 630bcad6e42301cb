"""DeepFM for tables with categories: a factorization machine and an MLP on the same vectors."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.models.base import Width, model
from tune_vfl.models.fields import FieldNet, FieldOptions, FieldVectors
from tune_vfl.models.layers import Linear, stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import BOTH


class DeepFmOptions(FieldOptions):
    """Widths of the vectors and of the deep part; the paper has 10, and three layers of 400."""

    category_dim: int = Field(10, ge=1, description="width of the vector of a number or of a category's value")
    bottom_hidden: tuple[Width, ...] = Field((64, 32), min_length=1, description="hidden widths of the deep part")


class DeepAndFactors(nn.Module):
    """The sum of a linear map of the columns, the products of the fields in pairs, and an MLP.

    Args:
        fields: how many columns each field became.
        d_out: width of the embedding.
        options: of the architecture.
        stream: where the starting weights come from.
    """

    def __init__(self, fields: tuple[int, ...], d_out: int, options: DeepFmOptions, *, stream: Stream) -> None:
        super().__init__()
        self.first = Linear(sum(fields), d_out, stream=stream)
        self.vectors = FieldVectors(fields, options.category_dim, stream=stream, numbers=True)
        self._dim = options.category_dim
        widths = [self.vectors.width, *options.bottom_hidden]
        self.deep = nn.Sequential(*stack_of(widths, nn.ReLU, stream=stream), nn.ReLU())
        self.out = Linear(options.category_dim + options.bottom_hidden[-1], d_out, stream=stream)

    def pairs(self, said: Tensor) -> Tensor:
        """Sum the products of any two fields' vectors: ``(*trials, B, fields * dim)`` to ``(*trials, B, dim)``."""
        vectors = said.reshape(*said.shape[:-1], -1, self._dim)
        # Half of (the square of the sum minus the sum of the squares), which takes time linear in the number of fields.
        products: Tensor = (vectors.sum(-2).square() - vectors.square().sum(-2)) / 2
        return products

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d)`` to ``(*trials, B, d_out)``."""
        said = self.vectors(x)
        embedding: Tensor = self.first(x) + self.out(torch.cat([self.pairs(said), self.deep(said)], -1))
        return embedding


@model("deepfm")
class DeepFm(FieldNet[DeepFmOptions]):
    """For each party a DeepFM on its own columns; one linear layer on top.

    The paper adds the ``dim`` numbers of the products up to one logit. Each number of an embedding adds them up with
    weights of its own. Fields of different parties are not multiplied: they meet in the top model.
    """

    summary = "DeepFM at each party: a factorization machine and an MLP on the same vectors"
    reference = "Guo et al. 2017, DeepFM: A Factorization-Machine based Neural Network for CTR Prediction"
    Options = DeepFmOptions
    federations = BOTH

    def bottom_of_fields(self, fields: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the three parts."""
        return DeepAndFactors(fields, d_out, self.options, stream=stream)

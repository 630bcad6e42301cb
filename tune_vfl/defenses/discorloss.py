"""Distance correlation loss: the label party pulls embeddings towards independence of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.kernels.distances import class_correlation
from tune_vfl.metrics.correlation import distance_correlation
from tune_vfl.protocol.losses import task_loss
from tune_vfl.spec import Strict

WIDE_FROM = 513
"""From this many rows on, distances of soft targets are centered in float64: means over B^2 lose digits in float32."""


class DiscorlossParams(Strict):
    """Parameters of :class:`Discorloss`."""

    weight: float = Field(
        0.08, ge=0, allow_inf_nan=False, description="weight of the correlation in the loss; 0 leaves the loss alone"
    )
    phi: Literal["identity", "log"] = Field(
        "identity", description="what is added to the loss: the correlation itself, or its logarithm"
    )


@defense("discorloss")
class Discorloss(Defense[DiscorlossParams]):
    """Adds ``weight`` times the distance correlation of embedding and one-hot label to the loss, for each party.

    The correlation is one number a batch, taken from embeddings as the label party received them, so the gradient that
    is sent back carries the pull. A batch of a single class adds nothing. It costs B^2 distances a step, none of which
    machine code keeps; embeddings of width 1 are sorted instead. A passive party that uploads more than its embedding
    can undo it. Source: Sun et al. 2022.
    """

    summary = "a penalty on the distance correlation of embeddings and labels"
    reference = "Sun et al. 2022, Label Leakage and Protection from Forward Embedding in Vertical Federated Learning"
    paper_attacks = ("spectral",)
    Params = DiscorlossParams
    capabilities = DefenseCapabilities(stackable=True, protects=("embeddings",))
    weakest = {"weight": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the task loss plus the weighted correlations ``(*trials,)``; soft targets are taken as they are."""
        penalty = torch.stack([self._penalty(e, targets, hard=targets.dim() < logits.dim()) for e in embeddings]).sum(0)
        return task_loss(logits, targets) + self.number(lambda p: p.weight, dims=0) * penalty.to(logits.dtype)

    def _penalty(self, embedding: Tensor, targets: Tensor, *, hard: bool) -> Tensor:
        """Return phi of one party's correlation ``(*trials,)``, 0 where all labels of the batch are equal."""
        if hard:
            correlation = class_correlation(embedding, targets, self.num_classes)
            varied = (targets != targets[..., :1]).any(-1)
        else:
            wide = torch.float64 if embedding.shape[-2] >= WIDE_FROM else embedding.dtype
            correlation = distance_correlation(embedding.to(wide), targets.to(wide))
            varied = (targets != targets[..., :1, :]).any(-1).any(-1)
        return torch.where(varied, correlation.log() if self.shared.phi == "log" else correlation, 0.0)

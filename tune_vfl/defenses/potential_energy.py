"""Potential energy loss: the label party drives embeddings of one class apart, like charges of one sign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, normalize

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.errors import SpecError
from tune_vfl.protocol.losses import task_loss
from tune_vfl.protocol.mechanism import Mechanism, Repulsion
from tune_vfl.spec import Named, Strict

NEAREST = 1e-3
"""Smallest angle that counts, in radians: two rows that are nearer, or as near to opposite, do not draw on each other.

Their force would be without bound, and without a direction where they are equal.
"""
ROOM = 3
"""Width from which on rows have directions after layer normalization that are not just two opposite ones."""
SHORTEST = 1e-6
"""Length below which a row has no direction; one that varies at all has, after layer normalization, about sqrt(d)."""


class PotentialEnergyParams(Strict):
    """Parameters of :class:`PotentialEnergy`."""

    weight: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        description="weight of the potential energy in the loss; 0 keeps the normalization, but nothing repels",
    )


def potential_energy(embedding: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of ``1 / angle`` over all pairs of rows of one class.

    Args:
        embedding: ``(*trials, B, d)``; rows without a direction are in no pair.
        targets: ``(*trials, B)`` int64 classes.

    Returns:
        ``(*trials,)`` float64, in 1 / radians, from 1 / pi to 1 / :data:`NEAREST`; 0 where there is no pair.

    Example:
        >>> import torch
        >>> from tune_vfl.defenses.potential_energy import potential_energy
        >>> right_angle = torch.tensor([[1.0, 0.0], [0.0, 3.0], [1.0, 0.1]])  # the last one is of another class
        >>> round(potential_energy(right_angle, torch.tensor([0, 0, 1])).item() * torch.pi / 2, 6)
        1.0
    """
    rows = embedding.double()
    points, limit = normalize(rows, dim=-1), math.cos(NEAREST)
    angles = (points @ points.mT).clamp(-limit, limit).arccos()
    pointed = torch.linalg.vector_norm(rows.detach(), dim=-1) > SHORTEST
    paired = (targets.unsqueeze(-1) == targets.unsqueeze(-2)) & pointed.unsqueeze(-1) & pointed.unsqueeze(-2)
    paired = paired & ~torch.eye(targets.shape[-1], dtype=torch.bool, device=targets.device)
    total: Tensor = torch.where(paired, angles.reciprocal(), 0.0).sum((-1, -2))
    mean: Tensor = total / paired.sum((-1, -2)).clamp_min(1)
    return mean


class OnSphere(nn.Module):
    """A bottom model whose embeddings are normalized row by row: mean 0, and length ``sqrt(d)``.

    Args:
        bottom: from features to embeddings ``(*trials, B, d)``.
    """

    def __init__(self, bottom: nn.Module) -> None:
        super().__init__()
        self.bottom = bottom

    def forward(self, x: Tensor) -> Tensor:
        """Map features to normalized embeddings."""
        embedding: Tensor = self.bottom(x)
        return layer_norm(embedding, embedding.shape[-1:])


@defense("potential_energy")
class PotentialEnergy(Defense[PotentialEnergyParams]):
    """Adds ``weight`` times the potential energy of embeddings of one class to the loss, for each passive party.

    Layer normalization, without learned parameters, ends the bottom models, so that embeddings h lie on a sphere, and
    two of a class repel each other by the energy ``1 / arccos(h . h' / (|h| |h'|))``. They spread up to the boundary of
    what the top model takes for their class, where a few known rows say little of the others. The paper writes the sum
    over all ordered pairs of a batch; here it is their mean, so that a weight means the same in batches of any size:
    by the sum already a weight of .01 leaves digits no more accuracy than the label party alone has, and the published
    weights are .25 to 32. What the passive party's bottom model computes before the normalization is not protected, nor
    are its own columns. Nor are the gradients: they hold the forces, which the party can compute for any two rows of a
    batch, and they tell which rows are of one class (``matched_filter``). No setting is the same as no defense.

    Source: Zheng et al. 2024, the loss with layer normalization and angles, as the first author's thesis prints it.
    """

    summary = "embeddings of one class repel each other on a sphere"
    reference = "Zheng et al. 2024, Protecting Split Learning by Potential Energy Loss (IJCAI)"
    paper_attacks = ("pmc",)
    Params = PotentialEnergyParams
    capabilities = DefenseCapabilities(
        modes=frozenset({"split", "label_only"}), stackable=True, run_by="both", protects=("embeddings",)
    )

    @classmethod
    def fitted_to(cls, given: Mapping[str, Any], *, model: Named, modality: str) -> dict[str, Any]:
        """Return the parameters as they are.

        Raises:
            SpecError: for embeddings of width 1 or 2.
        """
        width = model.options.get("embedding_dim", ROOM)
        if width < ROOM:
            raise SpecError(
                f"defense {cls.name!r} spreads embeddings on a sphere, which takes model.embedding_dim {ROOM} or more, "
                f"got {width}; raise it, or take discorloss"
            )
        return dict(given)

    def wrap_bottom(self, bottom: nn.Module) -> nn.Module:
        """H2: normalize what it sends."""
        return OnSphere(bottom)

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the task loss plus the weighted energies of all passive parties ``(*trials,)``, in float64.

        Energies of rows that are near each other are large numbers, beside which float32 would round the task loss.
        """
        energy = torch.stack([potential_energy(e, targets) for e in embeddings]).sum(0)
        return task_loss(logits, targets) + self.number(lambda p: p.weight, dims=0) * energy

    def mechanism(self) -> Mechanism:
        """Return the weight of the energy, and the angle from which on two rows have a force."""
        weight = torch.tensor(self.values(lambda p: p.weight), dtype=torch.float64)
        return Mechanism(repels=Repulsion(weight if self.stacked else weight[0], NEAREST))

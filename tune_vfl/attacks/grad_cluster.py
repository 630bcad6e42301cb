"""Gradient clustering: rows of one class receive gradients of similar direction, and a few labels name the clusters."""

from __future__ import annotations

import torch
from pydantic import Field, field_validator
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.kmeans import spherical_kmeans, unit
from tune_vfl.attacks.parts.moments import MomentAttack, MomentParams, Name
from tune_vfl.protocol.folds import folds_of
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Answer, Recording, View

_FOLDS = 5


class GradClusterParams(MomentParams):
    """Parameters of :class:`GradCluster`."""

    moments: tuple[Name, ...] = Field(
        ("last", "epoch0", "mean"),
        description="when gradients are read, each by itself: the last epoch, the first one, each row's mean over all; "
        "a first batch holds too few labeled rows",
    )

    @field_validator("moments")
    @classmethod
    def _labeled_rows_are_there(cls, moments: tuple[Name, ...]) -> tuple[Name, ...]:
        if "first_batch" in moments:
            raise ValueError("clusters are named by labeled rows, of which a first batch holds too few; leave it out")
        return moments

    clusters_per_class: int = Field(
        4,
        ge=1,
        le=16,
        description="clusters, as a multiple of the number of classes; a class may gather in several places",
    )
    restarts: int = Field(4, ge=1, le=32, description="random starts of the clustering; the tightest result is taken")
    fit_rows: int = Field(
        4096,
        ge=2,
        description="rows that the clusters are found on, evenly spread over the epoch; all rows are assigned",
    )


@attack("grad_cluster")
class GradCluster(MomentAttack[GradClusterParams]):
    """Clusters the directions of an epoch's gradients; each cluster is named by most of the labeled rows in it.

    With a top model the entries of a cut gradient belong to no class, so its signs say nothing, but its direction still
    depends on the class. A cluster without labeled rows, or with a tie, takes the class of the labeled row nearest to
    its center. A row's score for a class is its cosine with the nearest cluster of that name, -1 where no cluster has
    it. Rows whose label is known are not counted.
    """

    summary = "cluster the directions of cut gradients, name the clusters by a few labels"
    reference = (
        "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning (direct inference, carried over "
        "to models with a top model)"
    )
    Params = GradClusterParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(sees=frozenset({"gradients", "auxiliary"}))

    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Return the variant ``grad_cluster``: scores ``(*trials, M, K)`` in [-1, 1], oriented."""
        known = view.auxiliary
        rows = unit(seen.gradients)
        # Where each row of the training split stands in the recording, and which ones are labeled.
        place = seen.ids.argsort(-1)
        labeled = torch.zeros_like(seen.ids, dtype=torch.bool).scatter(-1, place.gather(-1, known.ids), True)
        streams = view.streams.restarted()  # each moment draws what it would draw alone
        centers = spherical_kmeans(
            spread(rows, self.params.fit_rows),
            self.params.clusters_per_class * view.num_classes,
            streams=streams,
            restarts=self.params.restarts,
        )
        near = gather_rows(rows, place.gather(-1, known.ids)) @ centers.transpose(-1, -2)
        labels = one_hot(known.labels, view.num_classes).bool()
        scores = best_of_each_name(rows @ centers.transpose(-1, -2), named(near, labels), view.num_classes)
        right = validated(near, labels, streams["folds"].uniform(known.labels.shape[-1]))
        return {"grad_cluster": Answer(scores, seen.ids, oriented=True, counted=~labeled, validation=right)}


def spread(rows: Tensor, count: int) -> Tensor:
    """Return at most ``count`` of the rows ``(*trials, M, d)``, evenly spread."""
    total = rows.shape[-2]
    return rows if total <= count else rows[..., torch.arange(count, device=rows.device) * total // count, :]


def named(near: Tensor, labels: Tensor) -> Tensor:
    """Name clusters by the majority of their labeled rows.

    Args:
        near: ``(*trials, A, C)`` cosine of each labeled row with each center.
        labels: ``(*trials, A, K)`` bool, one-hot.

    Returns:
        ``(*trials, C)`` int64 classes.
    """
    inside = one_hot(near.argmax(-1), near.shape[-1]).to(near.dtype)
    votes = inside.transpose(-1, -2) @ labels.to(near.dtype)
    nearest = near.unsqueeze(-1).masked_fill(~labels.unsqueeze(-2), -1.0).amax(-3)
    # A quarter of a cosine is always less than half a vote, so votes come first; the cosine decides between equal
    # votes, and names clusters that hold no labeled row.
    return (votes + nearest / 4).argmax(-1)


def validated(near: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
    """Return ``(*trials,)``: the share of labeled rows that get their class where clusters are named without them.

    Args:
        near: ``(*trials, A, C)`` cosine of each labeled row with each center.
        labels: ``(*trials, A, K)`` bool, one-hot.
        keys: ``(*trials, A)`` numbers in [0, 1) that order the rows of a class, of which every fold gets some.
    """
    y = labels.int().argmax(-1)
    folds = folds_of(y, keys, _FOLDS)
    right = torch.zeros_like(keys)
    for f in range(_FOLDS):
        held_out = folds == f
        names = named(near, labels & ~held_out.unsqueeze(-1))
        said = best_of_each_name(near, names, labels.shape[-1]).argmax(-1)
        right = torch.where(held_out, (said == y).to(right.dtype), right)
    return right.mean(-1)


def best_of_each_name(cosines: Tensor, names: Tensor, num_classes: int) -> Tensor:
    """Return ``(*trials, M, K)``: of ``(*trials, M, C)`` cosines the largest among the clusters of each name."""
    scores = [cosines.masked_fill((names != c).unsqueeze(-2), -1.0).amax(-1) for c in range(num_classes)]
    return torch.stack(scores, -1)

"""ID2Graph: communities of rows that share nodes, beside own columns, form clusters that a few labels name."""

from __future__ import annotations

import torch
from pydantic import Field
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.leaf_cluster import by_cluster
from tune_vfl.attacks.parts.communities import communities
from tune_vfl.attacks.parts.kmeans import spherical_kmeans, unit
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import TREES, Strict


class Id2GraphParams(Strict):
    """Parameters of :class:`Id2Graph`."""

    decay: float = Field(0.6, gt=0, le=1, description="weight of a tree beside that of the one before (tau)")
    community: float = Field(3.0, ge=0, description="weight of a row's community beside columns scaled to 0 and 1")
    clusters_per_class: int = Field(1, ge=1, le=16, description="clusters, as a multiple of the number of classes")
    restarts: int = Field(10, ge=1, le=32, description="random starts of the clustering; the tightest result is taken")
    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")


@attack("id2graph")
class Id2Graph(Attack[Id2GraphParams]):
    """Joins rows that share nodes in a graph, and clusters own columns beside the rows' communities in it.

    An edge weighs what the trees do in whose nodes both rows stand: each tree ``decay`` times as much as the one
    before. Communities are those of largest modularity; a row is its columns, scaled to 0 and 1, and one entry a
    community. As many clusters as classes are found by spherical k-means around the mean, where the paper has
    Euclidean one, and are named by a few known rows, where the paper compares clusters with classes.
    """

    summary = "cluster own columns beside communities of a graph of shared nodes, name the clusters by a few labels"
    reference = (
        "Takahashi et al. 2023, Eliminating Label Leakage in Tree-Based Vertical Federated Learning (arXiv 2307.10318)"
    )
    Params = Id2GraphParams
    capabilities = AttackCapabilities(
        sees=frozenset({"partitions", "features", "auxiliary"}),
        parties="joined",
        federations=TREES,
        stackable=False,
    )

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variant ``id2graph``: scores ``(N, K)`` in [-1, 1], oriented."""
        told: Partitions = view.granted("partitions")
        p, stream = self.params, view.streams["moving"]
        weights = p.decay ** torch.arange(told.trees)
        member_of = one_hot(communities(told.groups, weights, stream)).float()
        x = view.features.train.flatten(1)
        low, high = x.amin(0), x.amax(0)
        rows = torch.cat([(x - low) / (high - low).clamp(min=1e-12), p.community * member_of], -1)
        rows = unit(rows - rows.mean(0))
        centers = spherical_kmeans(
            rows, p.clusters_per_class * view.num_classes, streams=view.streams, restarts=p.restarts
        )
        return {"id2graph": by_cluster(rows @ centers.mT, view)}

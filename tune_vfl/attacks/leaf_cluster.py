"""Leaf clustering: rows that share many leaves form clusters, and a few labels name them."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.grad_cluster import best_of_each_name, named, spread, validated
from tune_vfl.attacks.parts.kmeans import spherical_kmeans, unit
from tune_vfl.attacks.parts.shared_leaves import answered, directions
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import TREES, Strict


class LeafClusterParams(Strict):
    """Parameters of :class:`LeafCluster`."""

    clusters_per_class: int = Field(
        4, ge=1, le=16, description="clusters, as a multiple of the number of classes; a class may gather in several"
    )
    restarts: int = Field(4, ge=1, le=32, description="random starts of the clustering; the tightest result is taken")
    fit_rows: int = Field(
        4096, ge=2, description="rows that the clusters are found on, evenly spread; all rows are assigned"
    )
    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")


@attack("leaf_cluster")
class LeafCluster(Attack[LeafClusterParams]):
    """Clusters rows by the leaves that they share; each cluster is named by most of the labeled rows in it.

    A row is the vector of its leaves in all trees, one entry a leaf, in its 32 main directions. The rest is what
    ``grad_cluster`` does with gradients: spherical k-means, names by votes, and as score for a class the cosine with
    the nearest cluster of that name. The paper names clusters by a majority that it takes for known.
    """

    summary = "cluster rows by the leaves that they share, name the clusters by a few labels"
    reference = (
        "Kang et al. 2024, Hyperparameter Optimization for SecureBoost via Constrained Multi-Objective Federated "
        "Learning (instance clustering)"
    )
    Params = LeafClusterParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(sees=frozenset({"partitions", "auxiliary"}), parties="joined", federations=TREES)

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variant ``leaf_cluster``: scores ``(*trials, N, K)`` in [-1, 1], oriented."""
        told: Partitions = view.granted("partitions")
        p = self.params
        rows = unit(directions(told.groups, told.nodes, view.streams["directions"]))
        centers = spherical_kmeans(
            spread(rows, p.fit_rows),
            p.clusters_per_class * view.num_classes,
            streams=view.streams,
            restarts=p.restarts,
        )
        return {"leaf_cluster": by_cluster(rows @ centers.transpose(-1, -2), view)}


def by_cluster(cosines: Tensor, view: View) -> Answer:
    """Return the answer of clusters that known rows name: each class's score is the nearest cluster's of that name.

    Args:
        cosines: ``(*trials, N, C)`` of all training rows with the centers of the clusters.
        view: of the attacker, whose known rows name them.
    """
    known = view.auxiliary
    near, labels = gather_rows(cosines, known.ids), one_hot(known.labels, view.num_classes).bool()
    scores = best_of_each_name(cosines, named(near, labels), view.num_classes)
    right = validated(near, labels, view.streams["folds"].uniform(known.labels.shape[-1]))
    return answered(scores, known, right)

"""LEA: clusters of rows, named by the mapping whose simulated first gradients point the way of the received ones."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.published_attacks.held import answer_of, unit
from tune_vfl.attacks.base import Attack, AttackCapabilities
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict

TOPS = 50
"""Simulated top models, of which the one with the best mapping decides."""


class Lea(Attack[Strict]):
    """Clusters rows, then tries all mappings of clusters to classes on simulated models; it knows no label.

    Written after the abstract alone. Rows are clustered by features, by the trained embedding, by the gradients of the
    first epoch and by their mean directions. A simulated model is a linear top model with weights drawn anew; its
    gradient for a row of cluster c that is mapped to class m is ``(1/K) sum(W) - W_m``, so that the inner product with
    all received gradients is a sum over clusters, and the best of all K! mappings is an assignment problem, solved
    exactly. ``NAME`` leaves the names to the scorer, which finds the best ones on other rows: what enumeration could
    reach at most. ``NAME_enumerated`` are the names that the attack finds itself.
    """

    name = "lea"
    summary = "clusters of rows, named by simulated first gradients, without a known label"
    reference = "Jiang et al. 2026, LEA: Label Enumeration Attack in Vertical Federated Learning"
    capabilities = AttackCapabilities(sees=frozenset({"visits", "features", "bottom"}), stackable=False)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the two answers of each clustering: minus distances to the cluster centers ``(N, K)``."""
        x, received = view.features.train, view.granted("visits").received
        none = torch.zeros(0, dtype=torch.long)
        columns = x.flatten(1).float()
        clustered = {
            "features": (columns - columns.mean(0)) / columns.std(0).clamp_min(1e-9),
            "embedding": in_chunks(view.bottom().eval(), x, 0).flatten(1),
            "first": unit(received[0]),
            "directions": unit(received).mean(0),
        }
        found: dict[str, Answer] = {}
        for name, rows in clustered.items():
            means = KMeans(view.num_classes, n_init=4, random_state=0).fit(rows.double().numpy())
            near = -torch.from_numpy(means.transform(rows.double().numpy()))
            found[name] = answer_of(near, none, named=False)
            weights = view.streams["tops"].normal(TOPS * view.num_classes, received.shape[-1])
            names = mapping(received[0], near.argmax(1), weights.view(TOPS, view.num_classes, -1))
            found[f"{name}_enumerated"] = answer_of(near[:, names], none)
        return found


def mapping(received: Tensor, cluster: Tensor, tops: Tensor) -> Tensor:
    """Return ``(K,)`` the cluster of each class under the mapping of the largest cosine.

    Args:
        received: ``(N, d)`` gradients of the first epoch.
        cluster: ``(N,)`` cluster of each row.
        tops: ``(T, K, d)`` weights of simulated linear top models.
    """
    sums = one_hot(cluster, tops.shape[1]).to(received.dtype).T @ received
    counts = one_hot(cluster, tops.shape[1]).sum(0).to(received.dtype)
    best, found = -np.inf, np.arange(tops.shape[1])
    for weights in tops:
        pushed = weights.mean(0) - weights  # the gradient of a row of each class, before anything is learned
        agreement = sums @ pushed.T
        _, classes = linear_sum_assignment(-agreement.numpy())
        length = (counts * pushed[classes].square().sum(1)).sum().sqrt()
        value = float(agreement[range(len(classes)), classes].sum() / length.clamp_min(1e-30))
        if value > best:
            best, found = value, np.argsort(classes)
    return torch.from_numpy(found)

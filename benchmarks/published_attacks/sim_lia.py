"""Similarity-based label inference: gradients and embeddings of known rows say the labels of similar ones."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.published_attacks.held import PartyData, unit
from tune_vfl.attacks.base import Attack, AttackCapabilities
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict


class SimLia(Attack[Strict]):
    """Names each row by its nearest known row, or by clusters that start at the known rows of a class.

    Gradients are compared by their cosine, embeddings by their distance; rows are scaled to length 1, where the two
    rank alike (Liu et al. 2024, section IV). Both read the last epoch, as SecretFlow's implementation does; ``@mean``
    reads each row's mean direction over the recorded epochs. Clusters are found by k-means and matched to classes by
    the known rows. Their third attack, which trains a classifier on known embeddings, is what `pmc` does.
    """

    name = "sim_lia"
    summary = "nearest known row, or clusters, by the cosine of gradients or the distance of embeddings"
    reference = "Liu et al. 2024, Similarity-Based Label Inference Attack (IEEE TIFS, arXiv 2203.05222)"
    capabilities = AttackCapabilities(sees=frozenset({"visits", "features", "bottom", "auxiliary"}), stackable=False)

    def run(self, view: View) -> dict[str, Answer]:
        """Return an answer by ``nearest`` and one by ``clusters`` for each thing compared."""
        held = PartyData.of(view)
        compared = {
            "gradient": unit(held.received[-1]),
            "gradient@mean": unit(unit(held.received).mean(0)),
            "embedding": unit(held.embedding),
        }
        found = {f"nearest_{name}": nearest(x, held) for name, x in compared.items()}
        found |= {f"clusters_{name}": clusters(x, held) for name, x in compared.items()}
        return {name: held.answer(scores) for name, scores in found.items()}


def nearest(x: Tensor, held: PartyData) -> Tensor:
    """Return ``(N, K)`` the largest cosine of each row with the known rows of a class; ``x`` has rows of length 1."""
    cosines = x @ x[held.ids].T
    of_class = [cosines[:, held.labels == k] for k in range(held.classes)]
    return torch.stack([c.amax(1) if c.shape[1] else -torch.ones(len(x)) for c in of_class], 1)


def clusters(x: Tensor, held: PartyData) -> Tensor:
    """Return ``(N, K)`` minus the distance to the cluster of each class, matched by the known rows."""
    members = one_hot(held.labels, held.classes).double()
    known = x[held.ids].double()
    start = (members.T @ known) / members.sum(0).clamp_min(1)[:, None]
    means = KMeans(held.classes, init=start.numpy(), n_init=1).fit(x.double().numpy())
    counts = members.T.numpy() @ np.eye(held.classes)[means.predict(known.numpy())]
    _, of_class = linear_sum_assignment(-counts)
    return -torch.from_numpy(means.transform(x.double().numpy())[:, of_class])

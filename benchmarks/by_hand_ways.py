"""Ways to read visits by hand: scales, graphs, clusters, trees; and what knowing the defense and its setting adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import kneighbors_graph

from benchmarks.by_hand_em import (
    Array,
    Gate,
    Ints,
    Visits,
    balanced,
    fitted,
    principal,
    sigmoid,
    standard,
    windows,
)

if TYPE_CHECKING:
    from benchmarks.by_hand import Seen


def unit(g: Array) -> Array:
    """Return rows at length 1; rows of zeros stay."""
    length = np.linalg.norm(g, axis=-1, keepdims=True)
    out: Array = g / np.where(length > 0, length, 1)
    return out


def clipped(g: Array) -> Array:
    """Return entries clipped at a robust deviation of their epoch and column: what Laplace noise would have scored."""
    middle = np.median(g, 1, keepdims=True)
    width = np.quantile(np.abs(g - middle), 0.7, axis=1, keepdims=True) + 1e-12
    out: Array = np.clip((g - middle) / width, -1, 1)
    return out


def sized(g: Array) -> Array:
    """Return gradients, each epoch's over their root mean square."""
    size = np.sqrt((g**2).mean((1, 2), keepdims=True))
    out: Array = g / np.where(size > 0, size, 1)
    return out


def flat(g: Array) -> Array:
    """Return ``(N, T d)`` of ``(T, N, d)``."""
    return np.swapaxes(g, 0, 1).reshape(g.shape[1], -1)


def by_batch(s: Seen) -> Array:
    """Return gradients over the median square length of their batch: batches with more noise weigh less."""
    out = s.received.copy()
    for epoch, ids in s.steps:
        out[epoch, ids] /= np.median((out[epoch, ids] ** 2).sum(1)) + 1e-30
    return out


def by_row(s: Seen) -> Array:
    """Return gradients over the mean length of their row in all visits."""
    length = np.linalg.norm(s.received, axis=-1).mean(0)
    out: Array = s.received / (length[:, None] + 1e-3 * length.mean() + 1e-30)
    return out


def neighbors_say(x: Array, s: Seen, count: int = 12, steps: int = 40) -> Array:
    """Spread the known labels over a graph of nearest rows; return log odds."""
    graph = kneighbors_graph(x, count, mode="connectivity")
    graph = graph.maximum(graph.T)
    root = np.sqrt(np.asarray(graph.sum(1)).ravel())
    scaled = graph.multiply(1 / root[:, None]).multiply(1 / root[None]).tocsr()
    y = np.zeros((len(x), 2))
    for k in (0, 1):
        y[s.ids[s.labels == k], k] = 1 / max(1, (s.labels == k).sum())
    f = y
    for _ in range(steps):
        f = 0.95 * (scaled @ f) + 0.05 * y
    out: Array = np.log(f[:, 1] + 1e-12) - np.log(f[:, 0] + 1e-12)
    return out


def clusters_say(x: Array, s: Seen) -> Array:
    """Name the clusters of k-means by the known labels, over several numbers of clusters; return log odds."""
    total = np.zeros(len(x))
    for k in (2, 3, 5, 8):
        found = KMeans(k, n_init=2, random_state=0).fit(x)
        inside = [s.labels[found.labels_[s.ids] == c] for c in range(k)]
        odds = np.array([np.log((mine.sum() + s.share) / ((1 - mine).sum() + 1 - s.share)) for mine in inside])
        near = -((x[:, None] - found.cluster_centers_[None]) ** 2).sum(-1)
        near = np.exp(near / (near.std() + 1e-9))
        total += (near * odds).sum(1) / near.sum(1)
    return total


def boosted(x: Array, r: Array, folds: Ints, rounds: int = 30) -> Array:
    """Return log odds that boosted trees, taught labels drawn from r of the other folds, give each row."""
    out = np.zeros(len(x))
    drawn = np.random.default_rng(0).random((2, len(x))) < r
    for fold in range(3):
        rest = np.flatnonzero(folds % 3 != fold)
        trees = HistGradientBoostingClassifier(
            max_iter=rounds, max_leaf_nodes=6, max_bins=32, learning_rate=0.2, early_stopping=False
        )
        trees.fit(np.concatenate([x[rest], x[rest]]), np.concatenate([drawn[0, rest], drawn[1, rest]]))
        out[folds % 3 == fold] = trees.decision_function(x[folds % 3 == fold])
    return out


def few_trees(x: Array, s: Seen) -> Array:
    """Return log odds of small boosted trees on the known rows alone."""
    trees = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=3, min_samples_leaf=3, learning_rate=0.1, early_stopping=False
    )
    out: Array = trees.fit(x[s.ids], s.labels).decision_function(x)
    return out


def em(s: Seen, g: Array, count: int, start: Array, *, curved: bool = False) -> Array:
    """Return log odds of EM over means of visits of so many spans."""
    visits = Visits(windows(s.sent, count), windows(g, count), s.folds)
    gate = Gate(standard(principal(s.own, 24)), s.folds)
    return fitted(visits, start, s.share, gate, s.known, curved=curved)


def flips(s: Seen, visits: Visits, start: Array, keep: float, rounds: int = 10) -> tuple[Array, Array]:
    """Return log odds of the true label where the model was taught labels that were swapped, kept with a known chance.

    What is hidden in the gradients is the swapped label; the gate learns the true one through the known channel.
    """
    gate = Gate(standard(principal(s.own, 24)), s.folds)
    share = keep * s.share + (1 - keep) * (1 - s.share)
    r_true, r_taught = start, keep * start + (1 - keep) * (1 - start)
    odds = start
    for _ in range(rounds):
        evidence = np.clip(visits.evidence(r_taught).sum(1), -30, 30)
        of_true = np.log((keep * np.exp(evidence) + 1 - keep) / ((1 - keep) * np.exp(evidence) + keep))
        gate_says = gate.says(r_true)
        odds = of_true + gate_says
        r_true = balanced(odds, s.share)
        r_true[s.ids] = s.labels
        p = balanced(gate_says, s.share)
        p[s.ids] = s.labels
        taught = keep * p + (1 - keep) * (1 - p)
        r_taught = balanced(evidence + np.log(taught / (1 - taught)), share)
    return odds, r_taught


def believed(s: Seen, r: Array, skipped: int = 2) -> tuple[Array, Array]:
    """Return what the model itself makes of each row, ``(N,)`` probabilities, and how sure R says the taught label is.

    A visit is (p - y) J: along the difference of the classes its sign says the label that was taught, and its size how
    far the model is from it. The model sees the columns of the label party too. The scale is that at which
    p is calibrated: E (y - p)^2 = E p (1 - p).

    Args:
        s: what the attacker holds.
        r: probabilities of the taught label.
        skipped: first epochs, in which the model knows nothing.
    """
    taught = (r > np.quantile(r, 1 - r.mean())).astype(float)
    jump = np.einsum("n,tnd->td", taught - taught.mean(), s.received)
    along = np.einsum("tnd,td->tn", s.received, jump / (np.linalg.norm(jump, axis=1, keepdims=True) + 1e-30))
    along = np.where(taught == 1, np.maximum(along, 0), np.minimum(along, 0))
    scale = 2 * (along**2).mean(1) / (np.abs(along).mean(1) + 1e-30)
    p = taught - along / (scale[:, None] + 1e-30)
    return np.clip(p[skipped:].mean(0), 0, 1), taught


def truth_behind(s: Seen, r: Array, keep: float | None) -> Array:
    """Return log odds of the true label from the model's own belief and the taught label.

    Args:
        s: what the attacker holds.
        r: probabilities of the taught label.
        keep: chance that a taught label is the true one, for both classes; None: the belief alone.
    """
    p, taught = believed(s, r)
    if keep is None:
        return np.log((p + 0.02) / (1 - p + 0.02))
    clean = np.clip((p - (1 - keep)) / (2 * keep - 1), 0.02, 0.98)
    return np.log(clean / (1 - clean)) + np.where(taught == 1, 1, -1) * np.log(keep / (1 - keep))


def bins(s: Seen, visits: Visits, start: Array, count: int, rounds: int = 10) -> Array:
    """Return log odds of the label where the model was taught one number for a class and a bin (labobf).

    The attacker knows its own random number, the last column of its features, and by it the odds of the bins.
    """
    gate = Gate(standard(principal(s.own, 24)), s.folds)
    values = (np.arange(2)[:, None] + 2 * np.arange(count)) / (2 * count - 1)  # (class, bin)
    own = np.round((s.x[:, -1] - s.x[:, -1].min()) / np.ptp(s.x[:, -1]) * 200)
    sums = own[:, None] + np.arange(201)
    ways = np.convolve(np.ones(201), np.ones(201)).cumsum() / 201**2
    cuts = [int(np.searchsorted(ways, k / count)) for k in range(1, count)]
    which = (sums[..., None] > np.array(cuts)).sum(-1)
    prior = np.stack([(which == b).mean(1) for b in range(count)], 1) + 1e-6  # (N, bin)
    odds = np.log(start / (1 - start) + 1e-9)
    r = start
    evidence = np.zeros((len(own), 2, count))
    for _ in range(rounds):
        joint = np.log(np.stack([1 - r, r], 1) + 1e-9)[:, :, None] + np.log(prior)[:, None] + evidence
        joint = np.exp(joint - joint.max((1, 2), keepdims=True))
        joint /= joint.sum((1, 2), keepdims=True)
        along, size = visits.along((joint * values).sum((1, 2)), (joint * values**2).sum((1, 2)))
        evidence = values * along.sum(1)[:, None, None] - values**2 * size.sum(1)[:, None, None] / 2
        whole = np.log(prior)[:, None] + evidence
        by_class = np.log(np.exp(whole - whole.max((1, 2), keepdims=True)).sum(2) + 1e-30)
        odds = by_class[:, 1] - by_class[:, 0] + gate.says(r)
        r = balanced(odds, s.share)
        r[s.ids] = s.labels
    return odds


def raw_entries(s: Seen, bound: float) -> Array:
    """Return what ppdl sent without the entries that it drew: those at its bounds, and zeros."""
    rows = np.ones(s.received.shape[:2])
    for epoch, ids in s.steps:
        rows[epoch, ids] = len(ids)
    sent = s.received / rows[..., None]
    drawn = (np.abs(np.abs(sent) - bound) < 1e-3 * bound) | (sent == 0)
    return np.where(drawn, 0.0, s.received)


def keep_chance(epsilon: float) -> float:
    """Return the chance that randomized response keeps one of two labels."""
    return float(sigmoid(np.array(epsilon)))

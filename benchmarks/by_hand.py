"""What a patient attacker would try by hand on everything that it sent and received: one attack of many variants."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import kneighbors_graph

from benchmarks import by_hand_known as law
from benchmarks.by_hand_em import (
    Array,
    Gate,
    Ints,
    Visits,
    balanced,
    fitted,
    principal,
    said,
    soft_logistic,
    standard,
)
from tune_vfl.attacks.base import Attack, AttackCapabilities, attack
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.exchanged import FirstExchanges
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.view import Answer, View
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training


class AllExchanges(FirstExchanges):
    """Keeps what was sent and received in every epoch, and in which step; and the defense with its parameters."""

    defense: Defense | None = None
    _noise: tuple[int, Streams] | None = None

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._epochs = training.epochs
        self.order: dict[int, list[torch.Tensor]] = {}

    def begin(self, loop: SplitTraining) -> None:
        """Remember the defense: the attacker knows which it is, and at which setting."""
        self.defense = next((h for h in loop.hooks if isinstance(h, Defense)), None)

    def gradient_received(self, gradient: torch.Tensor, *, party: int, ids: torch.Tensor, epoch: int, step: int) -> None:
        """Keep it, and who was in this batch."""
        super().gradient_received(gradient, party=party, ids=ids, epoch=epoch, step=step)
        self.order.setdefault(epoch, []).append(ids.cpu())

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Keep N(0, 1) in the place of gradients."""
        self._noise = width, streams

    def seen(self) -> dict[str, Any]:
        """Return what one member sent and received, ``(T, N, d)``; nothing sent where nothing was trained."""
        if self._noise is not None:
            width, streams = self._noise
            noise = streams.fresh("by_hand").normal(self._epochs, self.rows * width)
            return {"received": _of(noise, self._member).view(self._epochs, self.rows, width)}
        exchange = self.of(0)
        order = {e: [_of(ids, self._member) for ids in steps] for e, steps in self.order.items()}
        which = 0 if self._member is None else self._member
        return {
            "sent": exchange.sent,
            "received": exchange.received,
            "order": order,
            "defense": self.defense,
            "params": None if self.defense is None else self.defense.members[which],
            "member": self._member,
        }

    def member(self, index: int) -> Self:
        """Return one member's."""
        alone = super().member(index)
        alone.defense, alone._noise, alone.order = self.defense, self._noise, self.order
        return alone


def _of(x: torch.Tensor, member: int | None) -> torch.Tensor:
    return x if member is None else x[member]


@grant("all_exchanges")
class Everything(Grant):
    """What one passive party sent and received in all epochs, in the order of the steps."""

    keeps = (AllExchanges,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> dict[str, Any]:
        """Return it."""
        return run.kept(AllExchanges).seen()


@dataclass(eq=False)
class Seen:
    """Everything that the attacker holds, of one training.

    Attributes:
        x: ``(N, p)`` its features; ``embedding``: ``(N, q)`` what its model makes of them in the end.
        sent: ``(T, N, q)``, received: ``(T, N, d)`` of each row's own loss.
        ids, labels: rows whose label it knows.
        share: of the positives.
        extra: order of steps, defense and its parameters, where there was a training.
    """

    x: Array
    embedding: Array
    sent: Array
    received: Array
    ids: Ints
    labels: Ints
    share: float
    extra: Mapping[str, Any]

    @property
    def known(self) -> tuple[Ints, Ints]:
        """Rows and their labels."""
        return self.ids, self.labels

    @property
    def own(self) -> Array:
        """Features and embedding, standardized."""
        return standard(np.concatenate([self.x, self.embedding], 1))

    @property
    def folds(self) -> Ints:
        """Fold of each row."""
        return np.random.default_rng(0).permutation(len(self.x)) % 5

    def start(self, x: Array, strength: float = 0.1) -> Array:
        """Return probabilities that a logistic regression on the few labels gives, with the known share."""
        x = standard(x) / np.sqrt(max(x.shape[1], 1) / 10)
        beta = soft_logistic(x[self.ids], self.labels.astype(float), strength)
        return balanced(said(x, beta), self.share)


def seen_of(view: View) -> Seen:
    """Read a view of one training."""
    held = view.granted("all_exchanges")
    x = view.features.train
    embedding = in_chunks(view.bottom().eval(), x, 0).double().numpy()
    received = held["received"].double().nan_to_num().numpy()
    sent = held["sent"].double().nan_to_num().numpy() if "sent" in held else np.stack([embedding] * len(received))
    aux = view.auxiliary
    return Seen(
        x.flatten(1).double().numpy(),
        embedding,
        sent,
        received,
        aux.ids.numpy(),
        aux.labels.numpy(),
        float(view.class_prior[1]),
        held,
    )


def unit(g: Array) -> Array:
    """Return rows at length 1; rows of zeros stay."""
    length = np.linalg.norm(g, axis=-1, keepdims=True)
    out: Array = g / np.where(length > 0, length, 1)
    return out


def clipped(g: Array) -> Array:
    """Return entries clipped at a robust deviation of their epoch and column."""
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


def neighbors_say(x: Array, s: Seen, count: int = 12, steps: int = 40) -> Array:
    """Spread the known labels over a graph of nearest rows."""
    graph = kneighbors_graph(x, count, mode="connectivity")
    graph = graph.maximum(graph.T)
    degree = np.asarray(graph.sum(1)).ravel()
    scaled = graph.multiply(1 / np.sqrt(degree)[:, None]).multiply(1 / np.sqrt(degree)[None]).tocsr()
    y = np.zeros((len(x), 2))
    for k in (0, 1):
        y[s.ids[s.labels == k], k] = 1 / max(1, (s.labels == k).sum())
    f = y
    for _ in range(steps):
        f = 0.95 * (scaled @ f) + 0.05 * y
    out: Array = np.log(f[:, 1] + 1e-12) - np.log(f[:, 0] + 1e-12)
    return out


def clusters_say(x: Array, s: Seen) -> Array:
    """Name k-means' clusters by the known labels, over several numbers of clusters."""
    total = np.zeros(len(x))
    for k in (2, 3, 5, 8):
        found = KMeans(k, n_init=2, random_state=0).fit(x)
        odds = np.zeros(k)
        for c in range(k):
            mine = s.labels[found.labels_[s.ids] == c]
            odds[c] = np.log((mine.sum() + 0.5 * s.share * 2) / ((1 - mine).sum() + (1 - s.share)))
        near = -((x[:, None] - found.cluster_centers_[None]) ** 2).sum(-1)
        near = np.exp(near / (near.std() + 1e-9))
        total += (near * odds).sum(1) / near.sum(1)
    return total


def boosted(x: Array, r: Array, folds: Ints, rounds: int = 30) -> Array:
    """Return log odds that boosted trees, taught labels drawn from r of the other folds, give each row."""
    out = np.zeros(len(x))
    drawn = np.random.default_rng(0).random((2, len(x))) < r
    folds = folds % 3
    for fold in range(3):
        rest = np.flatnonzero(folds != fold)
        trees = HistGradientBoostingClassifier(
            max_iter=rounds, max_leaf_nodes=6, max_bins=32, learning_rate=0.2, early_stopping=False
        )
        trees.fit(np.concatenate([x[rest], x[rest]]), np.concatenate([drawn[0, rest], drawn[1, rest]]))
        out[folds == fold] = trees.decision_function(x[folds == fold])
    return out


def few_trees(x: Array, s: Seen) -> Array:
    """Return log odds of small boosted trees on the known rows alone."""
    trees = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=3, min_samples_leaf=3, learning_rate=0.1, early_stopping=False
    )
    out: Array = trees.fit(x[s.ids], s.labels).decision_function(x)
    return out


def taught_itself(x: Array, s: Seen, start: Array, rounds: int = 8) -> Array:
    """Return log odds of a logistic regression that goes on learning from what it says of other folds."""
    r, gate, logits = start, Gate(x, s.folds, 0.03), np.zeros(len(x))
    for _ in range(rounds):
        logits = gate.says(r)
        r = balanced(logits, s.share)
        r[s.ids] = s.labels
    return logits


def windows(g: Array, count: int) -> Array:
    """Return means ``(count, N, d)`` over as many spans of epochs."""
    return np.stack([part.mean(0) for part in np.array_split(g, count)])


def fits_known(logits: Array, s: Seen) -> float:
    """Return the log loss on the known rows."""
    p = np.clip(balanced(logits, s.share)[s.ids], 1e-3, 1 - 1e-3)
    return float(-np.mean(s.labels * np.log(p) + (1 - s.labels) * np.log(1 - p)))


def em(s: Seen, g: Array, count: int, start: Array, gate: Array | None = None, **how: Any) -> tuple[Array, Array]:
    """Return log odds of EM over means of visits of so many spans, and the part of the gradients."""
    tied, rounds = how.pop("tied", True), how.pop("rounds", 8)
    curved = how.pop("curved", 0)
    sent = s.sent if len(s.sent) == len(g) else s.sent[:: len(s.sent) // len(g)]
    visits = Visits(windows(sent, count), windows(g, count), s.folds, **how)
    own = standard(principal(s.own, 24)) if gate is None else gate
    return fitted(visits, start, s.share, Gate(own, s.folds), s.known, tied=tied, rounds=rounds, curved=curved)


def run_methods(s: Seen) -> dict[str, Array]:
    """Return every variant's scores ``(N,)``."""
    g = s.received
    out: dict[str, Array] = {}

    def put(name: str, f: Callable[[], Any]) -> None:
        t = time.process_time()
        found = f()
        out[name] = found if isinstance(found, np.ndarray) else found[0]
        COST[name] = COST.get(name, 0) + time.process_time() - t

    pc = standard(principal(flat(sized(g)), 12))
    pcd = standard(principal(flat(unit(g)), 12))
    mean, direction = standard(sized(g).mean(0)), standard(unit(g).mean(0))
    norms = standard(np.log(np.linalg.norm(g, axis=-1).T + 1e-9 * np.abs(g).max() + 1e-30).mean(1, keepdims=True))
    zeros = standard(np.stack([(g == 0).mean((0, 2))], 1))
    whole = np.concatenate([pc, pcd, mean, direction, norms, zeros, s.own], 1)
    small = np.concatenate([pc[:, :6], pcd[:, :6], mean, direction, norms, zeros, principal(s.own, 12)], 1)
    put("lr_all", lambda: s.start(whole))
    put("lr_mean+own", lambda: s.start(np.concatenate([mean, s.own], 1)))
    put("lr_direction+own", lambda: s.start(np.concatenate([direction, s.own], 1)))
    put("lr_own", lambda: s.start(s.own))
    put("spread_mean", lambda: neighbors_say(np.concatenate([mean, standard(s.embedding)], 1), s))
    put("spread_direction", lambda: neighbors_say(direction, s))
    put("clusters_pcd", lambda: clusters_say(principal(flat(unit(g)), 10), s))
    r = out["lr_mean+own"]
    put("em3", lambda: em(s, g, 3, r))
    put("em3_unit", lambda: em(s, unit(g), 3, out["lr_direction+own"]))
    put("em3_clip", lambda: em(s, clipped(g), 3, r))
    q = balanced(out["em3"], s.share)
    put("curved", lambda: em(s, g, len(g), q, curved=0.1))
    put("curved_unit", lambda: em(s, unit(g), len(g), q, curved=0.1))
    put("em3_trees", lambda: boosted(small, balanced(out["em3"], s.share), s.folds))
    out["em3+trees"] = out["em3"] / out["em3"].std() + out["em3_trees"] / out["em3_trees"].std()
    for name, of_defense in knowing(s, r, out).items():
        put(name, of_defense)
    return out


def knowing(s: Seen, r: Array, out: Mapping[str, Array]) -> dict[str, Callable[[], Any]]:
    """Return what knowing the defense adds, by name."""
    p, name = s.extra.get("params"), getattr(s.extra.get("defense"), "name", "")
    more: dict[str, Callable[[], Any]] = {"em3_row": lambda: em(s, law.by_row(s), 3, r)}
    if name in ("iso", "max_norm", "marvell", "gafm_marvell"):
        more["em3_batch"] = lambda: em(s, law.by_batch(s), 3, r)
    if name.startswith("gafm"):
        more["em15_square"] = lambda: em(s, s.received[::2], 15, r, square=True, rounds=5)
        more["em30_square"] = lambda: em(s, s.received, 30, r, square=True, rounds=4)
    if name == "label_dp":
        visits = Visits(windows(s.sent, 3), windows(s.received, 3), s.folds)
        keep = law.keep_chance(p.epsilon)
        more["flips3"] = lambda: law.flips(s, visits, r, keep)
        more["believed"] = lambda: law.truth_behind(s, law.flips(s, visits, r, keep)[1], keep)
        more["believed_em"] = lambda: law.truth_behind(s, balanced(out["em3"], s.share), keep)
    if name in ("ladistill", "ladsg"):
        more["believed_em"] = lambda: law.truth_behind(s, balanced(out["em3"], s.share), None)
        more["believed_curved"] = lambda: law.truth_behind(s, balanced(out["curved"], s.share), None)
    if name == "labobf":
        spans = Visits(windows(s.sent, 3), windows(s.received, 3), s.folds)
        more["bins3"] = lambda: law.bins(s, spans, r, p.bins)
    if name == "ppdl":
        raw = law.raw_entries(s, p.bound)
        start = s.start(np.concatenate([standard(raw.mean(0)), s.own], 1))
        more["lr_raw"] = lambda: start
        more["em3_raw"] = lambda: em(s, raw, 3, start)
    if name == "sparsification":
        waited = law.waited(s)
        start_ = s.start(np.concatenate([standard(waited.mean(0)), s.own], 1))
        more["em3_waited"] = lambda: em(s, waited, 3, start_)
    return more


COST: dict[str, float] = {}


class ByHandParams(Strict):
    """None."""


@attack("by_hand")
class ByHand(Attack[ByHandParams]):
    """All that is tried by hand; each variant stands for itself."""

    summary = "by hand"
    reference = "-"
    Params = ByHandParams
    capabilities = AttackCapabilities(
        classes="binary",
        sees=frozenset({"all_exchanges", "features", "bottom", "auxiliary", "class_prior"}),
        stackable=False,
    )

    def run(self, view: View) -> dict[str, Answer]:
        """Return one answer a variant."""
        s = seen_of(view)
        ids = torch.arange(len(s.x))
        hidden = torch.ones(len(s.x), dtype=torch.bool)
        hidden[torch.from_numpy(s.ids)] = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said_ = run_methods(s)
        return {
            name: Answer(torch.from_numpy(np.nan_to_num(v)).float(), ids, oriented=True, counted=hidden)
            for name, v in said_.items()
        }

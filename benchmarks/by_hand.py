"""Attacks by hand on everything that a passive party sent and received, as variants of one attack."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch

from benchmarks import by_hand_filter as filters
from benchmarks import by_hand_ways as ways
from benchmarks.by_hand_em import Array, Ints, Visits, balanced, principal, said, soft_logistic, standard, windows
from benchmarks.by_hand_ledger import by_ledger
from tune_vfl.attacks.base import Attack, AttackCapabilities
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import Grant
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

    def gradient_received(
        self, gradient: torch.Tensor, *, party: int, ids: torch.Tensor, epoch: int, step: int
    ) -> None:
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


class Everything(Grant):
    """Embeddings and gradients of one passive party in all epochs, in the order of the steps."""

    name = "all_exchanges"  # registered where the program runs

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
    def steps(self) -> list[tuple[int, Ints]]:
        """Epoch and rows of each step; none where there was no training."""
        return [(epoch, ids.numpy()) for epoch, of in self.extra.get("order", {}).items() for ids in of]

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


COST: dict[str, float] = {}
"""CPU seconds of each way so far."""


def all_ways(s: Seen) -> dict[str, Array]:
    """Return every way's scores ``(N,)``: log odds, or probabilities."""
    g, out = s.received, {}

    def put(name: str, found: Callable[[], Array]) -> None:
        start = time.process_time()
        out[name] = found()
        COST[name] = COST.get(name, 0.0) + time.process_time() - start

    visits, directions = standard(principal(ways.flat(ways.sized(g)), 12)), principal(ways.flat(ways.unit(g)), 12)
    mean, direction = standard(ways.sized(g).mean(0)), standard(ways.unit(g).mean(0))
    lengths = standard(np.log(np.linalg.norm(g, axis=-1).T + 1e-9 * np.abs(g).max() + 1e-30).mean(1, keepdims=True))
    zeros = standard((g == 0).mean((0, 2))[:, None])
    whole = np.concatenate([visits, standard(directions), mean, direction, lengths, zeros, s.own], 1)
    few = [visits[:, :6], standard(directions)[:, :6], mean, direction, lengths, zeros, principal(s.own, 12)]
    small = np.concatenate(few, 1)
    put("lr_all", lambda: s.start(whole))
    put("lr_mean+own", lambda: s.start(np.concatenate([mean, s.own], 1)))
    put("lr_direction+own", lambda: s.start(np.concatenate([direction, s.own], 1)))
    put("lr_own", lambda: s.start(s.own))
    put("trees_few", lambda: ways.few_trees(small, s))
    put("spread_mean", lambda: ways.neighbors_say(np.concatenate([mean, standard(s.embedding)], 1), s))
    put("spread_direction", lambda: ways.neighbors_say(direction, s))
    put("clusters_pcd", lambda: ways.clusters_say(directions[:, :10], s))
    r = out["lr_mean+own"]
    put("em3", lambda: ways.em(s, g, 3, r))
    put("em3_unit", lambda: ways.em(s, ways.unit(g), 3, out["lr_direction+own"]))
    put("em3_clip", lambda: ways.em(s, ways.clipped(g), 3, r))
    put("em3_row", lambda: ways.em(s, ways.by_row(s), 3, r))
    put("curved", lambda: ways.em(s, g, len(g), balanced(out["em3"], s.share), curved=True))
    put("curved_unit", lambda: ways.em(s, ways.unit(g), len(g), balanced(out["em3"], s.share), curved=True))
    put("em3_trees", lambda: ways.boosted(small, balanced(out["em3"], s.share), s.folds))
    prior = np.array([1 - s.share, s.share])
    steps = filters.steps_of(s.own, s.sent, g, s.steps, s.known, prior)
    gate = filters.Gate(steps.own, prior)
    put("filter", lambda: filters.odds(filters.by_filter(steps, gate)))
    put("filter_em3", lambda: filters.odds(filters.by_filter(steps, gate, filters.both(out["em3"]))))
    if getattr(s.extra.get("defense"), "name", "") == "sparsification":
        put("ledger", lambda: filters.odds(by_ledger(steps, gate, filters.both(out["filter_em3"]))))
    for name, way in knowing(s, r, out).items():
        put(name, way)
    return out


def knowing(s: Seen, r: Array, out: Mapping[str, Array]) -> dict[str, Callable[[], Array]]:
    """Return what knowing the defense and its setting adds, by name."""
    p, name = s.extra.get("params"), getattr(s.extra.get("defense"), "name", "")
    spans = Visits(windows(s.sent, 3), windows(s.received, 3), s.folds)
    if name in ("iso", "max_norm"):
        return {"em3_batch": lambda: ways.em(s, ways.by_batch(s), 3, r)}
    if name == "label_dp" and p is not None:
        keep = ways.keep_chance(p.epsilon)
        odds, taught = ways.flips(s, spans, r, keep)
        return {"flips3": lambda: odds, "believed": lambda: ways.truth_behind(s, taught, keep)}
    if name in ("ladistill", "ladsg"):
        guesses = {k: balanced(out[k], s.share) for k in ("em3", "curved")}
        return {f"believed_{k}": partial(ways.truth_behind, s, guess, None) for k, guess in guesses.items()}
    if name == "labobf" and p is not None:
        plain = Visits(np.zeros((10, len(r), 1)), windows(s.received, 10), s.folds)
        return {
            "bins3": lambda: ways.bins(s, spans, r, p.bins),
            "bins10": lambda: ways.bins(s, plain, np.full(len(r), s.share), p.bins),
        }
    if name == "ppdl" and p is not None:
        raw = ways.raw_entries(s, p.bound)
        start = s.start(np.concatenate([standard(raw.mean(0)), s.own], 1))
        return {"lr_raw": lambda: start, "em3_raw": lambda: ways.em(s, raw, 3, start)}
    return {}


class ByHand(Attack[Strict]):
    """All that is tried by hand; each variant stands for itself."""

    name = "by_hand"  # not registered: it is no attack of the program
    summary = "everything that a patient attacker tries by hand"
    reference = "-"
    capabilities = AttackCapabilities(
        classes="binary",
        sees=frozenset({"all_exchanges", "features", "bottom", "auxiliary", "class_prior"}),
        stackable=False,
    )

    def run(self, view: View) -> dict[str, Answer]:
        """Return one answer a way."""
        s = seen_of(view)
        ids, hidden = torch.arange(len(s.x)), torch.ones(len(s.x), dtype=torch.bool)
        hidden[torch.from_numpy(s.ids)] = False
        return {
            name: Answer(torch.from_numpy(np.nan_to_num(scores)).float(), ids, oriented=True, counted=hidden)
            for name, scores in all_ways(s).items()
        }

"""Labels by hand from steps: templates of gradients that move slowly, and a kernel on own columns.

Nothing here is shared with the attack `matched_filter`, which it is a check of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchmarks.by_hand_em import FOLDS, Array, Ints, principal, standard

Flags = NDArray[np.bool_]
KNOTS = (0.0, 0.5, 1.25, 2.5, 5.0, 9.0, 16.0, 30.0, 60.0, 120.0, 300.0)
"""Epochs at which templates are free; between them they are linear."""
POWERS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
RIDGES = 10.0 ** np.arange(-4, 3)
LANDMARKS = 600
SHARPER = 2.0 ** np.arange(-1, 6)
"""Temperatures of a regression's answers, from which a share of 1 in 10 to near certainty can come."""


@dataclass(eq=False)
class SeenSteps:
    """Embeddings that one party sent and gradients that it received, in the order of the steps.

    Attributes:
        ids: ``(T, B)`` row of each place; -1 where the batch was shorter.
        sent: ``(T, B, q)``; received: ``(T, B, d)`` of each row's own loss; zeros where there is no row.
        times: ``(T,)`` epochs that have passed.
        own: ``(N, p)`` the party's columns.
        known: rows whose label is known; labels: theirs; prior: ``(K,)`` the classes' shares.
    """

    ids: Ints
    sent: Array
    received: Array
    times: Array
    own: Array
    known: Ints
    labels: Ints
    prior: Array
    folds: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.folds = np.random.default_rng(0).permutation(len(self.own)) % FOLDS

    @property
    def there(self) -> Flags:
        """Places with a row, ``(T, B)``."""
        return self.ids >= 0

    def of_rows(self, values: Array) -> Array:
        """Return ``(T, B, k)`` of ``(N, k)``, zeros where there is no row."""
        return values[np.maximum(self.ids, 0)] * self.there[..., None]

    def to_rows(self, values: Array) -> Array:
        """Return sums ``(N, k)`` over the visits of each row of ``(T, B, k)``."""
        out = np.zeros((len(self.own), values.shape[-1]))
        np.add.at(out, self.ids[self.there], values[self.there])
        return out

    def pinned(self, r: Array) -> Array:
        """Return probabilities ``(N, K)`` with the known labels in them."""
        out = r.copy()
        out[self.known] = np.eye(len(self.prior))[self.labels]
        return out


def steps_of(
    own: Array, sent: Array, received: Array, order: Sequence[tuple[int, Ints]], known: tuple[Ints, Ints], prior: Array
) -> SeenSteps:
    """Return steps of ``(E, N, q)`` and ``(E, N, d)`` tables; without an order an epoch is a step."""
    order = order or [(epoch, np.arange(len(own))) for epoch in range(len(received))]
    most = max(len(ids) for _, ids in order)
    places = np.full((len(order), most), -1)
    tables = [np.zeros((len(order), most, x.shape[-1])) for x in (sent, received)]
    count = len(order) / len(received)
    for t, (epoch, ids) in enumerate(order):
        places[t, : len(ids)] = ids
        for table, x in zip(tables, (sent, received), strict=True):
            table[t, : len(ids)] = x[epoch, ids]
    return SeenSteps(places, tables[0], tables[1], np.arange(len(order)) / count, own, known[0], known[1], prior)


def hats(times: Array, knots: Sequence[float]) -> Array:
    """Return ``(T, J)`` weights of the knots at these times, each line's sum 1."""
    inside = np.array([k for k in knots if k < times[-1]] + [max(float(times[-1]), 1e-9)])
    return np.stack([np.interp(times, inside, row) for row in np.eye(len(inside))], 1)


def shared(logits: Array, prior: Array, rounds: int = 15) -> Array:
    """Return log probabilities of logits plus a number a class, such that the mean probabilities are the prior."""
    logits = logits - logits.max(1, keepdims=True)
    raised, factors = np.exp(logits), np.ones(len(prior))
    for _ in range(rounds):
        factors *= prior / np.maximum(factors * (raised.T @ (1 / (raised @ factors))) / len(logits), 1e-12)
        factors = np.clip(factors / factors.max(), 1e-20, 1)
    return np.asarray(logits + np.log(factors) - np.log(raised @ factors)[:, None])


class Gate:
    """Kernel ridge regressions of class probabilities on the own columns, with leave-one-out answers.

    Args:
        own: ``(N, p)``.
        prior: the classes' shares.
        widths: of the RBF kernels, in units of the rows' median squared distance; a linear one is tried too.
    """

    def __init__(self, own: Array, prior: Array, widths: Sequence[float] = (0.3, 1.0)) -> None:
        self.prior = prior
        x = np.clip(standard(own), -4, 4)
        x = x / np.sqrt((x**2).sum(1).mean())
        at = np.random.default_rng(1).permutation(len(x))[:LANDMARKS]
        apart = (x**2).sum(1)[:, None] + (x[at] ** 2).sum(1) - 2 * x @ x[at].T
        self.features = [x] if x.shape[1] < LANDMARKS else [principal(x, LANDMARKS)]
        for width in widths:
            near = np.exp(-np.maximum(apart, 0) / (width * np.median(apart)))
            values, vectors = np.linalg.eigh(near[at])
            rooted = near @ (vectors[:, values > 1e-8] / np.sqrt(values[values > 1e-8]))
            self.features.append(np.concatenate([rooted, 0.5 * self.features[0]], 1))
        self.spectra = [np.linalg.eigh(f.T @ f) for f in (f - f.mean(0) for f in self.features)]
        self.turned = [(f - f.mean(0)) @ v for f, (_, v) in zip(self.features, self.spectra, strict=True)]

    def by_known(self, known: Ints, labels: Ints) -> Array:
        """Return log probabilities ``(N, K)`` by the known rows alone; each of these by the others."""
        y = np.eye(len(self.prior))[labels]
        best, found = np.inf, np.zeros((len(self.features[0]), y.shape[1]))
        for columns in self.features:
            f = columns - columns[known].mean(0)
            values, vectors = np.linalg.eigh(f[known] @ f[known].T)
            for ridge in RIDGES:
                inverse = vectors / (np.maximum(values, 0) + ridge) @ vectors.T
                alpha = inverse @ (y - y.mean(0))
                lever = ((vectors**2) @ (np.maximum(values, 0) / (np.maximum(values, 0) + ridge)))[:, None] + 1 / len(y)
                left = ridge * alpha / np.maximum(1 - lever, 1e-3)
                if (error := (left**2).sum()) < best:
                    best, found = error, f @ (f[known].T @ alpha) + y.mean(0)
                    found[known] = y - left
        return self.tempered(found, y, known)

    def by_all(self, r: Array) -> Array:
        """Return leave-one-out log probabilities ``(N, K)`` of regressions on probabilities of all rows."""
        best, found = np.inf, r
        for f, (values, _) in zip(self.turned, self.spectra, strict=True):
            cross, square = f.T @ (r - r.mean(0)), f**2
            for ridge in RIDGES:
                kept = 1 / (np.maximum(values, 0) + ridge)
                said = f @ (kept[:, None] * cross) + r.mean(0)
                lever = (square @ kept + 1 / len(f))[:, None]
                left = (r - said) / np.maximum(1 - lever, 1e-3)
                if (error := (left**2).sum()) < best:
                    best, found = error, r - left
        return self.tempered(found, r, np.arange(len(r)))

    def tempered(self, said: Array, r: Array, rows: Ints) -> Array:
        """Return log probabilities of answers at the one temperature that suits r of these rows best."""
        tried = [shared(said * by, self.prior) for by in SHARPER]
        return tried[int(np.argmax([(r * of[rows]).sum() for of in tried]))]


def trusted(s: SeenSteps, evidence: Array, gates: Sequence[Array]) -> Array:
    """Return log probabilities by the power of the evidence and the gate that two judges like best.

    The judges: how well evidence and gate agree on all rows, and the likelihood of the known labels.
    """
    best, out = -np.inf, gates[0]
    for power in POWERS:
        said = shared(power * evidence, s.prior)
        for gate in gates:
            agreed = logsumexp(said + gate - np.log(s.prior + 1e-12), 1)
            both = shared(power * evidence + gate, s.prior)
            score = agreed.sum() + both[s.known, s.labels].sum()
            if score > best:
                best, out = score, both
    return out


class Filter:
    """Regressions of received gradients on what was sent and on classes, smooth in time, noise known by step."""

    def __init__(self, s: SeenSteps, knots: Sequence[float] = KNOTS, ridge: float = 1e-3, smooth: float = 1e-2) -> None:
        self.s, self.basis, self.ridge, self.smooth = s, hats(s.times, knots), ridge, smooth
        phi = standard(s.sent.reshape(-1, s.sent.shape[-1])).reshape(s.sent.shape)
        self.f = np.concatenate([np.ones((*s.ids.shape, 1)), phi], -1) * s.there[..., None]
        self.g = s.received / (np.sqrt((s.received**2).mean()) + 1e-30)
        self.noise = np.sqrt((self.g**2).sum((1, 2)) / (s.there.sum(1) * self.g.shape[-1])) + 1e-9
        self.masks = [(s.folds[np.maximum(s.ids, 0)] == k) & s.there for k in range(FOLDS)]
        self.still = [self._of(self.f * m[..., None], self.f, self.g) for m in self.masks]

    @staticmethod
    def _of(left: Array, *right: Array) -> list[Array]:
        return [np.swapaxes(left, 1, 2) @ x for x in right]

    def evidence(self, r: Array) -> Array:
        """Return log likelihoods ``(N, K)`` of the classes, by templates without the row's fold, fitted under r."""
        s, k = self.s, r.shape[1]
        c = s.of_rows(r)
        moved = [[*self._of(c * m[..., None], self.f, self.g), (c * m[..., None]).sum(1)] for m in self.masks]
        out, left = np.zeros((*s.ids.shape, k)), np.zeros(len(s.ids))
        for fold, mask in enumerate(self.masks):
            rest = [i for i in range(FOLDS) if i != fold]
            ff, fg = (sum(self.still[i][j] for i in rest) for j in (0, 1))
            cf, cg, cc = (sum(moved[i][j] for i in rest) for j in (0, 1, 2))
            gram = np.block([[ff, np.swapaxes(cf, 1, 2)], [cf, cc[:, :, None] * np.eye(k)]])
            target = np.concatenate([fg, cg], 1)
            found = np.tensordot(self.basis, self._solved(gram, target), 1)
            base, jump = found[:, :-k], found[:, -k:]
            residual = (self.g - self.f @ base) * mask[..., None]
            far = residual @ np.swapaxes(jump, 1, 2) - (jump**2).sum(2)[:, None] / 2
            out += far * mask[..., None]
            left += (residual**2).sum((1, 2)) - 2 * (far * c * mask[..., None]).sum((1, 2))
        self.noise = np.sqrt(np.maximum(left, 1e-12) / (s.there.sum(1) * self.g.shape[-1])) + 1e-6
        return s.to_rows(out / self.noise[:, None, None] ** 2)

    def _solved(self, gram: Array, target: Array) -> Array:
        """Return coefficients by knot ``(J, 1 + q + K, d)``."""
        b, weight, width = self.basis, self.noise**-2.0, gram.shape[-1]
        whole = np.einsum("ti,tj,tab->iajb", b * weight[:, None], b, gram, optimize=True)
        knots, size = b.shape[1], b.shape[1] * width
        apart = np.diff(np.eye(knots), axis=0)
        level = np.trace(whole.reshape(size, size)) / size
        penalty = np.kron(self.smooth * apart.T @ apart + self.ridge * np.eye(knots), np.eye(width)) * level
        sides = np.einsum("ti,tad->iad", b * weight[:, None], target).reshape(size, -1)
        return np.linalg.solve(whole.reshape(size, size) + penalty, sides).reshape(knots, width, -1)


def by_filter(s: SeenSteps, gate: Gate, first: Array | None = None, rounds: int = 10) -> Array:
    """Return log probabilities ``(N, K)`` by the matched filter.

    Args:
        s: the steps.
        gate: what the own columns say.
        first: another answer to start from; None: what the known rows alone say by the own columns.
        rounds: how often labels and models are fitted in turn.
    """
    start = gate.by_known(s.known, s.labels)
    return in_turn(s, Filter(s), gate, shared(start if first is None else first, s.prior), [start], rounds)


class Model(Protocol):
    """A model of gradients that reads evidence of labels from the steps."""

    def evidence(self, r: Array) -> Array:
        """Return log likelihoods ``(N, K)`` of the classes, given probabilities of all rows."""


def in_turn(s: SeenSteps, model: Model, gate: Gate, logits: Array, gates: Sequence[Array], rounds: int) -> Array:
    """Return log probabilities ``(N, K)``, of which the model and the gate are fitted in turn.

    Args:
        s: the steps.
        model: of the gradients.
        gate: of the own columns.
        logits: the start, with the classes' shares.
        gates: other answers by the own columns.
        rounds: how often.
    """
    for _ in range(rounds):
        r = s.pinned(np.exp(logits))
        logits = trusted(s, model.evidence(r), [*gates, gate.by_all(r)])
    return logits


def odds(said: Array) -> Array:
    """Return the log odds ``(N,)`` of the second of two classes."""
    out: Array = said[:, 1] - said[:, 0]
    return out


def both(said: Array) -> Array:
    """Return logits ``(N, 2)`` of log odds ``(N,)``."""
    return np.stack([np.zeros(len(said)), said], 1)

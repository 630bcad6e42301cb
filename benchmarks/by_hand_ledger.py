"""Labels by hand from sparse gradients: what was held back adds up, and the attacker knows whose entries it adds up."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from benchmarks.by_hand_em import Array, standard
from benchmarks.by_hand_filter import Gate, SeenSteps, hats, in_turn, shared

FEW_KNOTS = (0.0, 1.0, 4.0, 30.0)
"""Epochs at which templates are free."""


class SumsHeldBack:
    """Sums of entries of known rows that sparsification held back, each sent in the end or known to be small.

    A window is a run of steps at one place and column that ends when the sum is sent, or when the batch size changes.
    Arrays of entries are ``(d, V)``, V the visits ordered by place and step, so that each window is one slice.

    Args:
        s: the steps; entries that were not sent are 0.
    """

    def __init__(self, s: SeenSteps) -> None:
        self.s = s
        size = np.sqrt((s.received**2).sum() / max(1, (s.received != 0).sum())) + 1e-30
        got = s.received / size
        least = np.where(got != 0, np.abs(got), np.inf).min((1, 2))
        rows = s.there.sum(1)
        fresh = np.concatenate([[True], rows[1:] != rows[:-1]])
        place, step = np.nonzero(s.there.T)
        self.step, self.row = step, s.ids[step, place]
        entries = got[step, place].T  # (d, V)
        first = (np.diff(place, prepend=-1) != 0) | fresh[step]
        after = np.concatenate([np.zeros((len(entries), 1), bool), entries[:, :-1] != 0], 1)
        self.starts = [np.flatnonzero(of) for of in first | after]
        ends = [np.append(at[1:], len(step)) - 1 for at in self.starts]
        self.length = [e - a + 1.0 for a, e in zip(self.starts, ends, strict=True)]
        self.value = [x[e] for x, e in zip(entries, ends, strict=True)]
        self.least = [np.minimum(least[step[e]], 1e6) for e in ends]
        self.of = [np.repeat(np.arange(len(a)), n.astype(int)) for a, n in zip(self.starts, self.length, strict=True)]
        self.of_steps = hats(s.times, FEW_KNOTS)
        self.basis = self.of_steps[step]
        phi = standard(s.sent[step, place])
        self.still = np.concatenate([np.ones((len(step), 1)), phi], 1)
        self.noise = np.array([np.median(m) / np.sqrt(n.max()) for m, n in zip(self.least, self.length, strict=True)])
        self.found: list[Array] | None = None

    def evidence(self, r: Array, inner: int = 3) -> Array:
        """Return log likelihoods ``(N, K)`` of the classes, given probabilities of all other rows."""
        k, c = r.shape[1], r[self.row]
        spread = c[:, :, None] * np.eye(k) - c[:, :, None] * c[:, None]
        design = np.concatenate([self.still, c], 1)
        whole = (self.basis[:, :, None] * design[:, None]).reshape(len(design), -1)
        out = np.zeros((len(self.row), k))
        found = self.found or [np.zeros(whole.shape[1])] * len(self.starts)
        for column, theta in enumerate(found):
            best = theta
            for _ in range(inner):
                best = self._fitted(column, best, whole, spread)
            found[column] = best
            out += self._message(column, best, design, c)
        self.found = found
        rows = np.zeros((len(r), k))
        np.add.at(rows, self.row, out)
        return rows

    def _sums(self, column: int, theta: Array, whole: Array) -> tuple[Array, Array, Array]:
        """Return the means of the windows' sums, and mean and variance of each given what came of it."""
        mean = np.add.reduceat(whole @ theta, self.starts[column])
        s = self.noise[column] * np.sqrt(self.length[column])
        value, low, high = self.value[column], *((b * self.least[column] - mean) / s for b in (-1, 1))
        inside = np.maximum(ndtr(high) - ndtr(low), 1e-12)
        at = [np.exp(-0.5 * np.minimum(z**2, 500)) / np.sqrt(2 * np.pi) for z in (low, high)]
        shift = (at[0] - at[1]) / inside
        left = 1 + (np.clip(low, -40, 40) * at[0] - np.clip(high, -40, 40) * at[1]) / inside - shift**2
        hidden = value == 0
        cut = np.clip(mean + s * shift, -self.least[column], self.least[column])
        return mean, np.where(hidden, cut, value), np.where(hidden, np.clip(left, 1e-4, 1) * s**2, 0)

    def _fitted(self, column: int, theta: Array, whole: Array, spread: Array) -> Array:
        """Return the coefficients of a column, given the sums that the last ones expect; measure its noise."""
        starts, length, of = self.starts[column], self.length[column], self.of[column]
        _, value, variance = self._sums(column, theta, whole)
        summed, weight = np.add.reduceat(whole, starts), 1 / length
        knots, k = self.basis.shape[1], spread.shape[-1]
        width = whole.shape[1] // knots
        by_step = np.zeros((len(self.s.ids), k, k))
        np.add.at(by_step, self.step, spread * weight[of][:, None, None])
        basis = self.of_steps
        unsure = np.zeros((knots, width, knots, width))
        unsure[:, -k:, :, -k:] = np.einsum("ti,tj,tab->iajb", basis, basis, by_step, optimize=True)
        fit = (summed * weight[:, None]).T @ summed
        gram = fit + unsure.reshape(fit.shape)
        apart = np.diff(np.eye(knots), axis=0)
        level = np.trace(gram) / len(gram)
        penalty = np.kron(0.03 * apart.T @ apart + 0.03 * np.eye(knots), np.eye(width)) * level
        fitted: Array = np.linalg.solve(gram + penalty, summed.T @ (weight * value))
        left = ((value - summed @ fitted) ** 2 + variance) * weight
        self.noise[column] = np.sqrt((left.sum() + fitted @ unsure.reshape(fit.shape) @ fitted) / len(length)) + 1e-9
        return fitted

    def _message(self, column: int, theta: Array, design: Array, c: Array) -> Array:
        """Return what a column says of each visit's class, ``(V, K)``."""
        starts, of = self.starts[column], self.of[column]
        by_visit = self.basis @ theta.reshape(self.basis.shape[1], -1)
        jump = by_visit[:, -c.shape[1] :]
        along = (c * jump).sum(1)
        mean = (by_visit * design).sum(1)
        unsure = (c * jump**2).sum(1) - along**2
        others = np.add.reduceat(mean, starts)[of] - along
        s = (self.noise[column] ** 2 * self.length[column] + np.add.reduceat(unsure, starts))[of] - unsure
        s = np.sqrt(np.maximum(s, 1e-12))[:, None]
        at, value, least = others[:, None] + jump, self.value[column][of][:, None], self.least[column][of][:, None]
        inside = np.log(np.maximum(ndtr((least - at) / s) - ndtr((-least - at) / s), 1e-12))
        return np.asarray(np.where(value == 0, inside, -0.5 * ((value - at) / s) ** 2))


def by_ledger(s: SeenSteps, gate: Gate, start: Array, rounds: int = 5) -> Array:
    """Return log probabilities ``(N, K)`` by the ledger.

    Args:
        s: the steps.
        gate: what the own columns say.
        start: logits of another answer; by the known rows alone the ledger stays at its start.
        rounds: how often labels and models are fitted in turn.
    """
    return in_turn(s, SumsHeldBack(s), gate, shared(start, s.prior), [], rounds)

"""Labels of two classes as what is hidden in a mixture over all visits of a row, fitted by expectation maximization."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDS = 5


def standard(x: Array) -> Array:
    """Return ``(..., N, d)`` columns with mean 0 and deviation 1; columns that do not vary become 0."""
    spread = x.std(-2, keepdims=True)
    out: Array = (x - x.mean(-2, keepdims=True)) / np.where(spread > 1e-9, spread, np.inf)
    return out


def principal(x: Array, count: int) -> Array:
    """Return the ``count`` main coordinates ``(N, count)`` of ``(N, d)`` rows, the largest first."""
    x = x - x.mean(0)
    if x.shape[1] <= count:
        return x
    out: Array = x @ np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :count]
    return out


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``, for large numbers too."""
    out: Array = 0.5 * (1 + np.tanh(0.5 * np.clip(x, -60, 60)))
    return out


def balanced(logits: Array, share: float) -> Array:
    """Return probabilities of ``logits + b``, b such that their mean is the known share of the positives."""
    low, high = -40.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if sigmoid(logits + middle).mean() < share else (low, middle)
    return sigmoid(logits + low)


def windows(g: Array, count: int) -> Array:
    """Return means ``(count, N, d)`` of ``(T, N, d)`` over as many spans of epochs."""
    return np.stack([part.mean(0) for part in np.array_split(g, count)])


class Visits:
    """Statistics of all visits, by fold and epoch: what an expectation or a maximization step needs of them.

    Args:
        sent: ``(T, N, q)`` embeddings, of which the gradient without the label is a linear function.
        received: ``(T, N, d)`` gradients; each epoch's are divided by their root mean square.
        folds: ``(N,)``.
    """

    def __init__(self, sent: Array, received: Array, folds: Ints) -> None:
        phi = standard(sent)[..., :16]
        size = np.sqrt((received**2).mean((1, 2), keepdims=True))
        seen = received / np.where(size > 0, size, 1)
        self.seen = seen - seen.mean(1, keepdims=True)
        self.design, self.folds = np.concatenate([phi, np.ones((*phi.shape[:-1], 1))], -1), folds
        self.rows = [np.flatnonzero(folds == f) for f in range(FOLDS)]
        whole = np.concatenate([self.design, self.seen], -1)
        self._fixed = [np.swapaxes(whole[:, at], 1, 2) @ whole[:, at] for at in self.rows]

    def evidence(self, r: Array) -> Array:
        """Return log odds ``(N, T)`` by each epoch, fitted under probabilities r without the row's fold."""
        along, size = self.along(r, r)
        return along - size / 2

    def along(self, r: Array, r_square: Array) -> tuple[Array, Array]:
        """Return how far each visit lies along the jump of a hidden number, and how far the jump itself goes.

        The log likelihood of a hidden number v is v times the first less half of v squared times the second.

        Args:
            r: ``(N,)`` expectation of the hidden number of each row.
            r_square: ``(N,)`` of its square; the same for 0 and 1.

        Returns:
            ``(N, T)`` each, fitted without the row's fold.
        """
        epochs, rows = self.seen.shape[:2]
        out, sizes = np.zeros((rows, epochs)), np.zeros((rows, epochs))
        q, whole = self.design.shape[-1], np.concatenate([self.design, self.seen], -1)
        moving = [np.einsum("n,tnd->td", r[at], whole[:, at]) for at in self.rows]
        fixed, cross = sum(self._fixed), sum(moving)
        for at, own, own_cross in zip(self.rows, self._fixed, moving, strict=True):
            f, c, s = fixed - own, cross - own_cross, r_square.sum() - r_square[at].sum()
            found, left = _solved(f, c, s, q, rows - len(at))
            jump = found[:, q:]
            residual = self.seen[:, at] - self.design[:, at] @ found[:, :q]
            towards = jump @ np.linalg.inv(left)
            out[at], sizes[at] = (residual @ np.swapaxes(towards, 1, 2))[..., 0].T, (jump * towards).sum((1, 2))
        return out, sizes

    def curved(self, r: Array, mixed: float = 0.2) -> Array:
        """Return log odds ``(N, T)`` where the two classes have covariances of their own, fitted without its fold.

        Args:
            r: ``(N,)`` probabilities of the positive class.
            mixed: share of the common covariance in each class's.
        """
        q, fixed = self.design.shape[-1], sum(self._fixed)
        cross = np.einsum("n,tnd->td", r, np.concatenate([self.design, self.seen], -1))
        u = self.seen - self.design @ _solved(fixed, cross, r.sum(), q, len(r))[0][:, :q]
        moments = [[_moments(u[:, at], w[at]) for at in self.rows] for w in (1 - r, r)]
        out = np.zeros((len(r), len(u)))
        for k, at in enumerate(self.rows):
            sums = [[sum(p[i] for f, p in enumerate(of) if f != k) for i in range(3)] for of in moments]
            means = [m / n for n, m, _ in sums]
            covs = [c / n - m[:, :, None] * m[:, None] for (n, _, c), m in zip(sums, means, strict=True)]
            common = (covs[0] * sums[0][0] + covs[1] * sums[1][0]) / (sums[0][0] + sums[1][0])
            common = common + np.eye(u.shape[-1]) * (1e-3 * np.trace(common, axis1=1, axis2=2)[:, None, None] + 1e-9)
            for sign, mean, own in zip((-1, 1), means, covs, strict=True):
                cov, apart = (1 - mixed) * own + mixed * common, u[:, at] - mean[:, None]
                far = ((apart @ np.linalg.inv(cov)) * apart).sum(-1)
                out[at] -= sign * 0.5 * (far + np.linalg.slogdet(cov)[1][:, None]).T
        return out


def _solved(fixed: Array, cross: Array, square: float, q: int, rows: int) -> tuple[Array, Array]:
    """Return the ridge solution ``(T, q + 1, d)`` of gradients on design and hidden number, and the noise left."""
    c, hidden = cross[:, None, :q], np.full((len(fixed), 1, 1), square)
    upper = np.concatenate([fixed[:, :q, :q], np.swapaxes(c, 1, 2)], -1)
    gram = np.concatenate([upper, np.concatenate([c, hidden], -1)], 1) + np.eye(q + 1) * (1e-3 * rows)
    target = np.concatenate([fixed[:, :q, q:], cross[:, None, q:]], 1)
    found = np.linalg.solve(gram, target)
    left = (fixed[:, q:, q:] - np.swapaxes(found, 1, 2) @ target) / rows
    mean = np.trace(left, axis1=1, axis2=2)[:, None, None] / left.shape[-1]
    return found, 0.95 * left + np.eye(left.shape[-1]) * (0.05 * mean + 1e-9)


def _moments(u: Array, w: Array) -> tuple[float, Array, Array]:
    weighted = u * w[:, None]
    return float(w.sum()) + 1e-9, weighted.sum(1), np.swapaxes(weighted, 1, 2) @ u


def soft_logistic(x: Array, r: Array, strength: float, beta: Array | None = None, steps: int = 8) -> Array:
    """Return coefficients ``(d + 1,)``, the intercept last, of a logistic regression on soft labels r ``(n,)``.

    Args:
        x: ``(n, d)``.
        r: probabilities of the positive class.
        strength: C.
        beta: where Newton's steps begin.
        steps: how many.
    """
    design = np.concatenate([x, np.ones((len(x), 1))], 1)
    ridge = np.append(np.full(x.shape[1], 1 / strength), 1e-6)
    beta = np.zeros(design.shape[1]) if beta is None else beta
    for _ in range(steps):
        p = sigmoid(design @ beta)
        curve = (design.T * np.maximum(p * (1 - p), 1e-3)) @ design + np.diag(ridge)
        beta = beta - np.linalg.solve(curve, design.T @ (p - r) + ridge * beta)
    return beta


def said(x: Array, beta: Array) -> Array:
    """Return the log odds of rows under coefficients of :func:`soft_logistic`."""
    out: Array = x @ beta[:-1] + beta[-1]
    return out


class Gate:
    """A warm-started logistic regression of the label on the own columns, fitted to R without the row's fold.

    Args:
        own: ``(N, p)`` standardized.
        folds: ``(N,)``.
        strength: C.
    """

    def __init__(self, own: Array, folds: Ints, strength: float = 0.3) -> None:
        self.own, self.folds, self.strength = own, folds, strength
        self._learned: list[Array | None] = [None] * FOLDS

    def says(self, r: Array) -> Array:
        """Return log odds ``(N,)``."""
        out = np.zeros(len(r))
        for fold in range(FOLDS):
            ours, before = self.folds == fold, self._learned[fold]
            beta = soft_logistic(self.own[~ours], r[~ours], self.strength, before, 8 if before is None else 2)
            self._learned[fold] = beta
            out[ours] = said(self.own[ours], beta)
        return out


def fitted(
    visits: Visits, start: Array, share: float, gate: Gate, known: tuple[Ints, Ints], *, curved: bool, rounds: int = 8
) -> Array:
    """Return the log odds ``(N,)`` that alternate fits of gradients and labels end with.

    Args:
        visits: the statistics.
        start: ``(N,)`` first guess of the probabilities.
        share: of the positives.
        gate: what the attacker's own columns say.
        known: rows and labels, set in each round.
        curved: classes have covariances of their own, and a tenth of their evidence counts.
        rounds: how many.
    """
    r, logits = start, start
    for _ in range(rounds):
        evidence: Any = 0.1 * visits.curved(r).sum(1) if curved else visits.evidence(r).sum(1)
        logits = evidence + gate.says(r)
        r = balanced(logits, share)
        r[known[0]] = known[1]
    return logits

"""Labels of two classes as what is hidden in a mixture over all visits of a row, fitted by expectation maximization."""

from __future__ import annotations

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
    values, axes = np.linalg.eigh(x.T @ x)
    out: Array = x @ axes[:, ::-1][:, :count]
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


class Visits:
    """Statistics of all visits, by fold and epoch: what an expectation or a maximization step needs of them.

    Args:
        sent: ``(T, N, q)`` embeddings, of which the gradient without the label is a function.
        received: ``(T, N, d)`` gradients; each epoch's are divided by their root mean square.
        folds: ``(N,)``.
        square: that function is quadratic, not linear.
        bend: of how many columns of the embedding the jump from one class to the other is a linear function.
    """

    def __init__(self, sent: Array, received: Array, folds: Ints, *, square: bool = False, bend: int = 0) -> None:
        phi = standard(sent)[..., :16]
        one = np.ones((*phi.shape[:-1], 1))
        self.bends = np.concatenate([one, phi[..., :bend]], -1) if bend else one
        if square:
            upper = np.triu_indices(phi.shape[-1])
            phi = np.concatenate([phi, standard((phi[..., :, None] * phi[..., None, :])[..., upper[0], upper[1]])], -1)
        size = np.sqrt((received**2).mean((1, 2), keepdims=True))
        seen = received / np.where(size > 0, size, 1)
        self.seen = seen - seen.mean(1, keepdims=True)
        self.design, self.folds = np.concatenate([phi, one], -1), folds
        self.rows = [np.flatnonzero(folds == f) for f in range(FOLDS)]
        whole = np.concatenate([self.design, self.seen], -1)
        self._fixed = [np.swapaxes(whole[:, at], 1, 2) @ whole[:, at] for at in self.rows]

    def evidence(self, r: Array) -> Array:
        """Return what each epoch says of each row's label, ``(N, T)`` log odds, fitted without the row's fold."""
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
        out, sizes = (np.zeros((self.seen.shape[1], len(self.seen))) for _ in range(2))
        q = self.design.shape[-1]
        moving = [self._moving(at, r, r_square) for at in self.rows]
        fixed, count = sum(self._fixed), len(r)
        cross, square = (sum(parts) for parts in zip(*moving, strict=True))
        for at, own, (own_cross, own_square) in zip(self.rows, self._fixed, moving, strict=True):
            f, c, s, n = fixed - own, cross - own_cross, square - own_square, count - len(at)
            gram = np.concatenate(
                [
                    np.concatenate([f[:, :q, :q], np.swapaxes(c[:, :, :q], 1, 2)], -1),
                    np.concatenate([c[:, :, :q], s], -1),
                ],
                1,
            ) + np.eye(q + s.shape[-1]) * (1e-3 * n)
            target = np.concatenate([f[:, :q, q:], c[:, :, q:]], 1)
            found = np.linalg.solve(gram, target)
            left = (f[:, q:, q:] - np.swapaxes(found, 1, 2) @ target) / n
            floor = np.trace(left, axis1=1, axis2=2)[:, None, None] / left.shape[-1]
            left = 0.95 * left + np.eye(left.shape[-1]) * (0.05 * floor + 1e-9)
            jump = self.bends[:, at] @ found[:, q:]
            residual = self.seen[:, at] - self.design[:, at] @ found[:, :q]
            towards = jump @ np.linalg.inv(left)
            out[at], sizes[at] = (residual * towards).sum(-1).T, (jump * towards).sum(-1).T
        return out, sizes

    def quadratic(self, r: Array, mixed: float = 0.2) -> Array:
        """Return log odds ``(N, T)`` where the two classes have covariances of their own, fitted without the row's fold.

        Args:
            r: ``(N,)`` probabilities of the positive class.
            mixed: share of the common covariance in each class's.
        """
        x, fixed = self.design, sum(self._fixed)
        q = x.shape[-1]
        weighted = np.swapaxes(x * r[:, None], 1, 2)
        xr, gr = weighted.sum(-1)[..., None], np.swapaxes(self.seen, 1, 2) @ r
        top = np.concatenate([fixed[:, :q, :q], xr], -1)
        bottom = np.concatenate([np.swapaxes(xr, 1, 2), np.full((len(x), 1, 1), r.sum())], -1)
        gram = np.concatenate([top, bottom], 1) + np.eye(q + 1) * (1e-3 * len(r))
        found = np.linalg.solve(gram, np.concatenate([fixed[:, :q, q:], gr[:, None]], 1))
        u = self.seen - x @ found[:, :q]
        moments = [[self._moments(u[:, at], w[at]) for at in self.rows] for w in (1 - r, r)]
        out = np.zeros((len(r), len(x)))
        for k, at in enumerate(self.rows):
            sums = [[sum(p[i] for f, p in enumerate(of) if f != k) for i in range(3)] for of in moments]
            means = [m / n for n, m, _ in sums]
            covs = [c / n - m[:, :, None] * m[:, None] for (n, _, c), m in zip(sums, means, strict=True)]
            common = (covs[0] * sums[0][0] + covs[1] * sums[1][0]) / (sums[0][0] + sums[1][0])
            common = common + np.eye(u.shape[-1]) * (1e-3 * np.trace(common, axis1=1, axis2=2)[:, None, None] + 1e-9)
            for sign, mean, cov in zip((-1, 1), means, covs, strict=True):
                cov = (1 - mixed) * cov + mixed * common
                apart = u[:, at] - mean[:, None]
                far = ((apart @ np.linalg.inv(cov)) * apart).sum(-1)
                out[at] -= sign * 0.5 * (far + np.linalg.slogdet(cov)[1][:, None]).T
        return out

    @staticmethod
    def _moments(u: Array, w: Array) -> tuple[float, Array, Array]:
        weighted = u * w[:, None]
        return float(w.sum()) + 1e-9, weighted.sum(1), np.swapaxes(weighted, 1, 2) @ u

    def _moving(self, at: Ints, r: Array, r_square: Array) -> tuple[Array, Array]:
        """Return a fold's products of the class columns with all fixed ones, and expected ones with each other."""
        bends = self.bends[:, at]
        weighted, squares = (np.swapaxes(bends * x[at][:, None], 1, 2) for x in (r, r_square))
        return weighted @ np.concatenate([self.design[:, at], self.seen[:, at]], -1), squares @ bends


def together(evidence: Array, r: Array, folds: Ints) -> Array:
    """Return one log odds a row ``(N,)`` of ``(N, T)``: a linear discriminant under R, fitted without the row's fold."""
    out = np.zeros(len(evidence))
    for fold in range(FOLDS):
        ours, rest = folds == fold, folds != fold
        x, p = evidence[rest], r[rest][:, None]
        one, zero = (p * x).sum(0) / p.sum(), ((1 - p) * x).sum(0) / (1 - p).sum()
        middle = x - p * one - (1 - p) * zero
        apart = (p * (1 - p)).mean() * np.outer(one - zero, one - zero)
        cov = middle.T @ middle / len(x) + apart
        cov = 0.9 * cov + 0.1 * np.eye(len(cov)) * np.trace(cov) / len(cov)
        w = np.linalg.solve(cov, one - zero)
        out[ours] = (evidence[ours] - (one + zero) / 2) @ w
    return out


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
    ridge = np.full(design.shape[1], 1 / strength)
    ridge[-1] = 1e-6
    beta = np.zeros(design.shape[1]) if beta is None else beta
    for _ in range(steps):
        p = sigmoid(design @ beta)
        slope = design.T @ (p - r) + ridge * beta
        curve = (design.T * np.maximum(p * (1 - p), 1e-3)) @ design + np.diag(ridge)
        beta = beta - np.linalg.solve(curve, slope)
    return beta


def said(x: Array, beta: Array) -> Array:
    """Return the log odds of rows under coefficients of :func:`soft_logistic`."""
    out: Array = x @ beta[:-1] + beta[-1]
    return out


class Gate:
    """What the attacker's own columns say of a label, learned from R without the row's fold, a little more each time.

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
            ours = self.folds == fold
            before = self._learned[fold]
            beta = soft_logistic(self.own[~ours], r[~ours], self.strength, before, 8 if before is None else 2)
            self._learned[fold] = beta
            out[ours] = said(self.own[ours], beta)
        return out


def fitted(
    visits: Visits, start: Array, share: float, gate: Gate, known: tuple[Ints, Ints], rounds: int = 10, tied: bool = True,
    curved: float = 0
) -> tuple[Array, Array]:
    """Return the log odds ``(N,)`` that alternate fits of gradients and labels end with, and the part of gradients.

    Args:
        visits: the statistics.
        start: ``(N,)`` first guess of the probabilities.
        share: of the positives.
        gate: what the attacker's own columns say.
        known: rows and labels, set in each round.
        rounds: how many.
        tied: evidence of epochs is added up; else it is weighed by a linear discriminant.
        curved: where it is not 0, classes have covariances of their own, and their evidence counts so much.
    """
    r = start
    for _ in range(rounds):
        by_epoch = curved * visits.quadratic(r) if curved else visits.evidence(r)
        evidence = by_epoch.sum(1) if tied else together(by_epoch, r, visits.folds)
        logits = evidence + gate.says(r)
        r = balanced(logits, share)
        r[known[0]] = known[1]
    return logits, evidence

"""Multinomial logistic regression for many members, folds and regularization strengths at once.

The curvature of the cross-entropy is at most ``(1/2) X'X`` for each class (Boehning 1992), so one factorisation per
strength preconditions every step; Nesterov's momentum with restarts does the rest. The objective is scikit-learn's:
``C * sum_i loss_i + ||W||^2 / 2``, the intercept free.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad


def fit_logistic(
    x: Tensor, y: Tensor, weights: Tensor, strengths: Tensor, *, num_classes: int, steps: int = 50
) -> Tensor:
    """Fit one model per member, strength and row weighting.

    Args:
        x: ``(*trials, A, d)`` standardized inputs.
        y: ``(*trials, A)`` labels.
        weights: ``(*trials, F, A)`` row weights, 0 leaves a row out.
        strengths: ``(S,)`` or ``(*trials, S)`` values of C, larger fits closer.
        num_classes: K.
        steps: gradient steps; 50 leave probabilities within 0.01 for 10 classes at C <= 1.

    Returns:
        ``(*trials, S, F, d + 1, K)`` coefficients, the intercept last.
    """
    design = pad(x, (0, 1), value=1.0)
    lead, (rows, width), fits = x.shape[:-2], design.shape[-2:], weights.shape[-2]
    curvature = (design.transpose(-1, -2) @ design).double() / 2
    ridge = torch.ones(width, dtype=torch.float64, device=x.device)
    ridge[-1] = 0.0
    scale = strengths.double()[..., None, None]
    inverse = torch.linalg.inv(scale * curvature.unsqueeze(-3) + torch.diag(ridge)).to(x.dtype)
    wide = design.unsqueeze(-3).expand(*lead, strengths.shape[-1], rows, width).contiguous()
    # Rows come last: a softmax over few classes is several times faster across rows than along them.
    target = one_hot(y, num_classes).to(x.dtype).transpose(-1, -2)[..., None, None, :, :]
    weight = weights[..., None, :, None, :] * strengths[..., None, None, None]
    decay = ridge.to(x.dtype)

    def slope(at: Tensor) -> Tensor:
        logits = _per_fit(at @ wide.transpose(-1, -2), fits)
        residual = logits.softmax(-2).sub_(target).mul_(weight)
        pull: Tensor = residual.flatten(-3, -2) @ wide + decay * at
        return pull

    found = x.new_zeros(*lead, strengths.shape[-1], fits * num_classes, width)
    ahead, age = found, x.new_zeros(*lead, strengths.shape[-1], fits, 1, 1)
    for _ in range(steps):
        direction = slope(ahead)
        moved = ahead - direction @ inverse
        step = moved - found
        uphill = _per_fit(direction * step, fits).sum((-2, -1), keepdim=True) > 0
        age = torch.where(uphill, 0.0, age + 1)
        momentum = (age / (age + 3)).expand(*age.shape[:-2], num_classes, 1).flatten(-3, -2)
        ahead, found = moved + momentum * step, moved
    return _per_fit(found, fits).transpose(-1, -2)


def _per_fit(x: Tensor, fits: int) -> Tensor:
    return x.view(*x.shape[:-2], fits, x.shape[-2] // fits, x.shape[-1])


def logits_of(x: Tensor, coefficients: Tensor) -> Tensor:
    """Return ``(*trials, n, K)`` logits of ``(*trials, n, d)`` inputs under ``(*trials, d + 1, K)`` coefficients."""
    return x @ coefficients[..., :-1, :] + coefficients[..., -1:, :]


def choose_and_fit(
    x: Tensor, y: Tensor, folds: Tensor, count: int, strengths: Tensor, *, num_classes: int
) -> tuple[Tensor, Tensor]:
    """Choose C by cross-validated accuracy, member by member, and fit on all rows with it.

    Args:
        x: ``(*trials, A, d)`` standardized inputs.
        y: ``(*trials, A)`` labels.
        folds: ``(*trials, A)`` the fold of each row.
        count: number of folds.
        strengths: ``(S,)`` values of C in rising order; the smallest of equally good ones is taken.
        num_classes: K.

    Returns:
        ``(*trials, d + 1, K)`` coefficients, and ``(*trials,)`` the accuracy on held-out rows.
    """
    held_out = torch.stack([folds == f for f in range(count)], dim=-2).to(x.dtype)
    weights = torch.cat([1 - held_out, torch.ones_like(held_out[..., :1, :])], dim=-2)
    fitted = fit_logistic(x, y, weights, strengths, num_classes=num_classes)
    logits = logits_of(x[..., None, None, :, :], fitted[..., :-1, :, :])
    right = (logits.argmax(-1) == y[..., None, None, :]).to(x.dtype)
    accuracy = (right * held_out.unsqueeze(-3)).sum((-1, -2)) / y.shape[-1]
    best = accuracy.argmax(-1)
    whole = fitted[..., -1, :, :]
    at = best[..., None, None, None].expand(*best.shape, 1, *whole.shape[-2:])
    return whole.gather(-3, at).squeeze(-3), accuracy.amax(-1)

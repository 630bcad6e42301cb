"""Combined evidence of many epochs, tempered because epochs are correlated."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from tune_vfl.attacks.parts.folded_rows import others

TEMPERS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
"""Powers of the evidence among which one is chosen; 0 leaves the class shares alone."""
_SHRINK, _COLUMNS, _ROWS_A_COLUMN, _TURNS = 0.1, 64, 6, 10


def joined_evidence(said: Tensor, shares: Tensor, mask: Tensor) -> Tensor:
    """Return each row's log likelihood ratio of each class to the first: ``(T, F, S, K - 1, n)``.

    A linear discriminant of what the epochs say, fitted under the class probabilities without the row's fold. Where
    that would have too many columns for the rows, neighboring epochs are added up first, more of them the later they
    are.

    Args:
        said: ``(T, F, S, E, K - 1, n)`` log likelihood ratios, 0 for missing rows.
        shares: ``(T, F, S, K, n)`` class probabilities.
        mask: ``(F, 1, 1, n)``.
    """
    grouped = _grouped(said, int(mask.sum()))
    columns = [grouped[:, :, s].flatten(-3, -2) for s in range(grouped.shape[2])]  # one by one: nothing is copied
    counts = others(shares.sum(-1).double())
    sums = others(torch.stack([shares[:, :, s] @ c.mT for s, c in enumerate(columns)], 2).double())
    squares = others(torch.stack([c @ c.mT for c in columns], 2).double())
    means = sums / counts.unsqueeze(-1).clamp(min=1e-3)
    within = (squares - means.mT @ (counts.unsqueeze(-1) * means)) / counts.sum(-1)[..., None, None]
    spread = within.diagonal(dim1=-1, dim2=-2)
    within = (1 - _SHRINK) * within + torch.diag_embed(_SHRINK * spread + 1e-9 * spread.mean(-1, keepdim=True) + 1e-30)
    weights = torch.linalg.solve(within, means.mT).mT
    offsets = odds_of((weights * means).sum(-1, keepdim=True).float() / 2)
    weights = odds_of(weights).float()
    return torch.stack([weights[:, :, s] @ c for s, c in enumerate(columns)], 2) - offsets


def _grouped(said: Tensor, rows: int) -> Tensor:
    epochs, ratios = said.shape[-3:-1]
    groups = max(1, min(_COLUMNS, rows // _ROWS_A_COLUMN) // ratios)
    if epochs <= groups:
        return said
    place = [min(int(math.log1p(e) / math.log(epochs) * groups), groups - 1) for e in range(epochs)]
    summed = said.new_zeros(*said.shape[:-3], groups, *said.shape[-2:])
    return summed.index_add_(-3, torch.tensor(place), said)


def of_start(values: Tensor, at: Tensor) -> Tensor:
    """Return ``(T, F, 1, K, n)`` values of one start for each member, of ``(T, F, S, K, n)``; ``at`` is ``(T, 1)``."""
    place = at.view(-1, 1, 1, 1, 1)
    return values.gather(2, place.expand(*values.shape[:2], 1, *values.shape[3:]))


def odds_of(logs: Tensor) -> Tensor:
    """Return log odds ``(..., K - 1, n)`` of all other classes against the first one, of logits ``(..., K, n)``."""
    return logs[..., 1:, :] - logs[..., :1, :]


def shares_of(odds: Tensor) -> Tensor:
    """Return class probabilities ``(..., K, n)`` of log odds ``(..., K - 1, n)`` against the first class."""
    if odds.shape[-2] == 1:
        return torch.cat([torch.sigmoid(-odds), torch.sigmoid(odds)], -2)
    return softmax(pad(odds, (0, 0, 1, 0)))


def softmax(logits: Tensor) -> Tensor:
    """Overwrite logits with their softmax along the last axis but one, which is faster so than by torch's own."""
    logits.sub_(logits.amax(-2, keepdim=True)).exp_()
    return logits.div_(logits.sum(-2, keepdim=True))


def log_total(odds: Tensor) -> Tensor:
    """Return the negative log probability ``(..., 1, n)`` of the first class, of log odds against it."""
    if odds.shape[-2] == 1:
        return softplus(odds)
    top = odds.amax(-2, keepdim=True).clamp(min=0)
    return ((odds - top).exp_().sum(-2, keepdim=True) + (-top).exp()).log() + top


def balanced(odds: Tensor, prior: Tensor, mask: Tensor) -> Tensor:
    """Return class probabilities ``(T, F, S, K, n)`` of log odds, moved so that their means are the class shares.

    Args:
        odds: ``(T, F, S, K - 1, n)`` of each row's other classes against the first one.
        prior: ``(T, 1, 1, K, 1)`` logs of the class shares.
        mask: ``(F, 1, 1, n)``.
    """
    moved, rows = odds, mask.sum()
    for _ in range(_TURNS):
        means = (shares_of(moved) * mask).sum((1, -1), keepdim=True) / rows
        moved = moved + odds_of(prior - means.clamp(min=1e-9).log())
    return shares_of(moved) * mask


def agreement(
    evidence: Tensor, gate: Tensor, prior: Tensor, mask: Tensor, fitting: Tensor | bool = True
) -> tuple[Tensor, Tensor]:
    """Choose the power of the evidence that agrees most with the own columns; return it with the agreement.

    Gradients and own columns are taken to be independent given the class. Then the likelihood of the own columns under
    the posterior of the evidence is larger the more of the class both hold.

    Args:
        evidence: ``(T, F, S, K - 1, n)`` log likelihood ratios to the first class by the gradients.
        gate: ``(T, F, S, K - 1, n)`` log odds against the first class by the own columns.
        prior: ``(T, 1, 1, K, 1)`` logs of the class shares.
        mask: ``(F, 1, 1, n)``.
        fitting: ``(T, S, P)`` which of :data:`TEMPERS` may be chosen; all by default.

    Returns:
        ``(T, 1, S, 1, 1)`` powers, and ``(T, S)`` mean log likelihood ratios of a row to independence.
    """
    before, found = odds_of(prior), []
    ratio = gate - before
    alone = log_total(gate) + prior[..., :1, :]
    for power in TEMPERS:
        by_evidence = before + power * evidence
        likelihood = log_total(by_evidence + ratio) - log_total(by_evidence) - alone
        found.append((likelihood * mask).sum((1, -1, -2)) / mask.sum())
    best, at = torch.where(torch.as_tensor(fitting), torch.stack(found, -1), -torch.inf).max(-1)
    return torch.tensor(TEMPERS)[at][:, None, :, None, None], best


def known_loss(logs: Tensor, labels: Tensor) -> Tensor:
    """Return the log loss ``(T, S)`` of known rows at the best sharpness.

    Args:
        logs: ``(T, S, K, A)`` log probabilities, up to a constant for each row.
        labels: ``(T, A)``.
    """
    at = labels[:, None, None].expand(*logs.shape[:2], 1, labels.shape[-1])
    losses = [-(logs * power).log_softmax(-2).gather(-2, at).mean((-1, -2)) for power in TEMPERS[1:]]
    return torch.stack(losses).amin(0)

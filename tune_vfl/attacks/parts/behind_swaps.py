"""True classes behind two that were swapped at random: what a model believes beside the class that it is taught."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tune_vfl.attacks.parts.columns import main_axes
from tune_vfl.attacks.parts.read_signs import SURE
from tune_vfl.attacks.parts.trust import RAREST

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.own_columns import ColumnRegression
    from tune_vfl.attacks.parts.trust import Trust

WORTH = 0.5
"""Log odds of the true class for a deviation of the belief in it, if no label was swapped; less, as swaps hide it."""
ROUNDS = 5
"""Fits of the own columns: to the classes taught first, then to those that all together tell."""
ALIGNED = 3
"""Rounds in which the ends of each epoch's line are told apart by all epochs."""
FAINTEST = 1e-2
"""The least spread of beliefs that is more than rounding: in units of the classes' difference, and of a mean."""
_FARTHEST = 4.0


def behind_swaps(best: Tensor, received: Tensor, own: ColumnRegression, trust: Trust, swaps: Tensor) -> Tensor:
    """Return logits ``(T, n, 2)`` of the true classes, by the class taught, the model's belief and the own columns.

    The gradient of a cross-entropy is the belief less the class taught: its sign tells the latter of every row, which
    serves as a noisy label for the own columns, and its size the former.

    Args:
        best: ``(T, n, 2)`` logits that were found without, which say which class is which.
        received: ``(T, E, n, d)`` gradients.
        own: a regression on the own columns.
        trust: class shares, known rows and swaps.
        swaps: ``(T, 2, 2)`` how likely a class is taught in the place of another.
    """
    odds = odds_of_taught(received, best)
    shown = torch.stack([-odds, odds], -1) / 2
    taught, believed = trust.of_true(shown), beliefs(received, odds.sign())
    worth = WORTH / 2 * (swaps.diagonal(dim1=-2, dim2=-1).sum(-1) - 1)
    of_true = replace(trust, swaps=None)
    likelihoods = [taught, taught + worth[:, None, None] * torch.stack([-believed, believed], -1)]
    start, found, shares = trust.by_known(own), best, shown.softmax(-1)
    for of_round in range(ROUNDS):
        gates = trust.sharpened(own.of_all.scores(shares))
        likely, gate = of_true.chosen(likelihoods, [start, *gates] if of_round else gates, [1.0])
        found = trust.balanced(likely + gate)
        shares = trust.pinned(found.exp())
    return found


def odds_of_taught(received: Tensor, best: Tensor) -> Tensor:
    """Return log odds ``(T, n)`` that class 1 was taught.

    They are read off the sides of the gradients' main line at each epoch, whose ends are told apart by the other
    epochs, and whose classes by the answer without; a visit counts by how often visits of a row agree.
    """
    along = (received @ main_axes(received, 1).to(received.dtype)).squeeze(-1)  # (T, E, n)
    count = along[:, along.shape[1] // 2]
    for _ in range(ALIGNED):
        along = along * (along * count.unsqueeze(1)).sum(-1, keepdim=True).sign()
        count = along.sign().sum(1)
    votes = along.sign()
    wrong = (votes == -count.sign().unsqueeze(1)).float().mean((1, 2)).clamp(min=RAREST).unsqueeze(-1)
    order = ((count - count.mean(-1, keepdim=True)) * best.softmax(-1)[..., 1]).sum(-1, keepdim=True).sign()
    return (order * count * (1 / wrong - 1).log()).clamp(-SURE, SURE)


def beliefs(received: Tensor, taught: Tensor) -> Tensor:
    """Return how much more a model believed in class 1 than for other rows taught the same, ``(T, n)`` in deviations.

    Along the line between the means of both classes taught, what a gradient has beside the mean of its own is a
    difference of beliefs. A mean over the training: before a model has learned by heart what it is taught, it believes
    what most rows like this one are taught.

    Args:
        received: ``(T, E, n, d)`` gradients.
        taught: ``(T, n)`` 1, -1, or 0 where it is not known.
    """
    of_class = torch.stack([taught < 0, taught > 0], 1).to(received.dtype).unsqueeze(1)  # (T, 1, 2, n)
    shares = of_class / of_class.sum(-1, keepdim=True).clamp(min=1)
    line = (shares @ received).diff(dim=-2).squeeze(-2).unsqueeze(-1)  # (T, E, d, 1)
    along = received @ line / line.square().sum(-2, keepdim=True).clamp(min=1e-30)  # (T, E, n, 1)
    beside = along - of_class.mT @ (shares @ along)
    spread = (of_class.mT @ (shares @ beside.square())).sqrt().clamp(min=FAINTEST)
    found = -(beside / spread).clamp(-_FARTHEST, _FARTHEST).squeeze(-1).mean(1) * taught.abs()
    return found / found.square().mean(-1, keepdim=True).sqrt().clamp(min=FAINTEST)

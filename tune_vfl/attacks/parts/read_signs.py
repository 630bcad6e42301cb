"""Labels of two classes read off the signs of gradients, most of whose entries a defense has set to 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from tune_vfl.attacks.parts.sent_rows import SentRows
from tune_vfl.attacks.parts.trust import POWERS

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.trust import Trust

ROUNDS = 30
FEWEST = 3
"""Rows in which an entry must not be 0 for its sign to be read."""
SURE = 30.0
"""Largest log odds of a class."""


def read_signs(received: Tensor) -> Tensor:
    """Return the class of each visit up to their order, ``(T, E, n)``: 1, -1, or 0 where no entry says anything.

    Of two classes the gradient of a row points one way or the other along a line that all rows share. What is left of
    it after rounding has the sign of the class, times one sign for each entry and column: the rows that have two such
    entries tell these apart, and one sign of all is left open.

    Args:
        received: ``(T, E, n, d)`` gradients, most of them 0.
    """
    return torch.stack([_read(of) for of in received.nan_to_num(0.0, 0.0, 0.0).sign()])


def _read(signs: Tensor) -> Tensor:
    """Return the class of each visit ``(E, n)`` by the signs of one member's gradients ``(E, n, d)``."""
    by_row = signs.transpose(0, 1).flatten(1)
    used = by_row.abs().sum(0)
    line = one_hot(used.argmax(), len(used)).float()
    for _ in range(ROUNDS):
        line = by_row.mT @ (by_row @ line).tanh() / used.clamp(min=1)
    line = torch.where(used < FEWEST, 0.0, line.sign()).view(len(signs), 1, -1)
    return (signs * line).sum(-1).sign()


def with_signs(read: Tensor, best: Tensor, columns: Tensor, trust: Trust) -> Tensor:
    """Return logits ``(T, n, 2)`` by the classes that were read, by which rows were sent, and by what else is known.

    Half of the known rows judge a fit to the other half: they say which class is which, and how far the fit is trusted.
    Members of which nothing was read keep their logits.

    Args:
        read: ``(T, E, n)`` classes of visits, as :func:`read_signs` gives them.
        best: ``(T, n, 2)`` logits without them.
        columns: ``(T, n, m)`` the attacker's own.
        trust: known rows, which come first, and class shares.
    """
    known = 2.0 * trust.labels - 1
    half = torch.arange(known.shape[-1]) % 2
    judged = torch.stack([half == 0, half == 1])
    powers, told, found = torch.tensor(POWERS)[:, None, None], (read != 0).flatten(1).any(1), best.clone()
    for member in told.nonzero().flatten().tolist():
        labels = known[member]
        rows = SentRows(columns[member], read[member], trust.prior[member, 0, 1].exp())
        by_half = rows.fitted(torch.tensor([1.0, 1.0, -1.0, -1.0]), (labels * ~judged).repeat(2, 1))
        left_out = (by_half[:, : len(labels)].view(2, 2, -1) * judged).sum(1)  # (2, A)
        losses = -logsigmoid(powers * left_out * labels).mean(-1)  # (P, 2)
        power, order = divmod(int(losses.argmin()), 2)
        odds = rows.fitted(torch.tensor([1.0 - 2 * order]), labels.unsqueeze(0))[0]
        odds = torch.cat([left_out[order], odds[len(labels) :]]).clamp(-SURE, SURE)
        weight = POWERS[power]
        found[member] = (1 - min(weight, 1.0) / 2) * best[member] + weight / 2 * torch.stack([-odds, odds], -1)
    return torch.where(told[:, None, None], trust.balanced(found), best)

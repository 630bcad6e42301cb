"""Labels of two classes read off the signs of gradients, most of whose entries a defense has set to 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.own_columns import ColumnRegression
    from tune_vfl.attacks.parts.trust import Trust

ROUNDS = 30
FEWEST = 3
"""Rows in which an entry must not be 0 for its sign to be read."""
SURE = 6.0
"""Log odds of a class that was read."""
READ = 600
"""Rows whose classes a regression on own columns is taught."""
HEARD = 2.0
"""Weight of that regression's logits, which few known rows make too unsure of themselves."""
TOLD = 0.05
"""How much likelier known rows must be by it in one order of the classes than in the other."""


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


def with_signs(read: Tensor, best: Tensor, own: ColumnRegression, trust: Trust) -> Tensor:
    """Return logits ``(T, n, 2)`` of classes that were read, of own columns by these, and of what else is known.

    The own columns are those of rows that were read early: later on, rows of which something is left are those that
    the model takes to be of the other class. Known rows judge by this regression which class is which; where neither
    order is likelier by it than the other, nothing is read.

    Args:
        read: ``(T, E, n)`` classes of visits, as :func:`read_signs` gives them.
        best: ``(T, n, 2)`` logits without them.
        own: a regression on own columns.
        trust: known rows, which come first, and class shares.
    """
    known, count = trust.labels.shape[-1], read.shape[-1]
    early = read[:, : max(1, read.shape[1] // 3)].sum(1)
    at = early[:, known:].abs().argsort(dim=-1, descending=True, stable=True)[:, : min(READ, count - known)] + known
    taught = early.gather(1, at).sign()
    whole = read.sum(1).sign()
    losses, answers = [], []
    for way in (1, -1):
        columns = own.by_some(at, (1 + way * torch.stack([-taught, taught], -1)) / 2, trust.known)
        said = way * SURE / 2 * torch.stack([-whole, whole], -1)
        losses.append(trust.unlikely(trust.balanced(columns + said)))
        answers.append(trust.balanced(best + said + HEARD * columns))
    gain = (losses[1] - losses[0])[:, None, None]
    likelier = torch.where(gain > 0, answers[0], answers[1])
    return torch.where(gain.abs() > TOLD, likelier, best)

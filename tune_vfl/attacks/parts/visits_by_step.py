"""Visits of rows in the order in which a training made them, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tune_vfl.attacks.parts.columns import WIDEST, principal, scaled, standardized, taken

if TYPE_CHECKING:
    from tune_vfl.protocol.visits import Visits

FOLDS = 5
SENT = 16
"""Principal columns of the embeddings."""
MOST = 512
"""Limit of steps; of a training with more of them neighboring ones count as one."""


@dataclass(frozen=True, eq=False)
class VisitsByStep:
    """Gradients and embeddings of T members in S steps of at most B rows.

    Attributes:
        columns: ``(T, S, B, 1 + q + d)`` a one, the embedding and the gradient of each visit; 0 where there is no row.
        explaining: ``1 + q``, how many of them explain the rest.
        rows: ``(T, S, B)`` the row of each visit; n where there is none.
        folds: ``(T, S, B, F)`` 1 for the fold of its row.
        times: ``(S,)`` in epochs.
        count: n, the number of rows.
    """

    columns: Tensor
    explaining: int
    rows: Tensor
    folds: Tensor
    times: Tensor
    count: int

    @classmethod
    def of(cls, visits: Visits, rows: Tensor) -> VisitsByStep:
        """Order the visits of drawn rows ``(T, n)``, whose place there is their number from here on."""
        sent, received, places = (taken(x, rows) for x in (visits.sent, visits.received, visits.places.unsqueeze(-1)))
        members, entries, count = places.shape[:3]
        columns = torch.cat([torch.ones_like(received[..., :1]), _on_one_scale(sent), _centered(received)], -1)
        batch = max(1, round(visits.batch * count / visits.places.shape[-1]))  # of a part of the rows, so many a step
        chunk = batch * -(-entries * -(-count // batch) // MOST)
        order = pad(places.squeeze(-1).argsort(-1), (0, -count % chunk), value=count)  # (T, E, steps * chunk)
        blank = pad(columns, (0, 0, 0, 1))
        ordered = blank.gather(2, order.unsqueeze(-1).expand(*order.shape, columns.shape[-1]))
        steps = order.shape[-1] // chunk
        within = torch.arange(steps) / steps
        times = (torch.tensor(visits.times).unsqueeze(-1) + within).flatten()
        by_step = order.view(members, entries * steps, chunk)
        folds = one_hot(by_step % FOLDS, FOLDS).float() * (by_step < count).unsqueeze(-1)
        whole = ordered.view(members, entries * steps, chunk, -1)
        explaining = columns.shape[-1] - min(received.shape[-1], WIDEST)
        return cls(whole, explaining, by_step, folds, times, count)

    def gather(self, by_row: Tensor) -> Tensor:
        """Return what belongs to the rows of visits, ``(T, S, B, k)``, of ``(T, n, k)``; 0 where there is no row."""
        at = self.rows.flatten(1).unsqueeze(-1).expand(-1, -1, by_row.shape[-1])
        return pad(by_row, (0, 0, 0, 1)).gather(1, at).view(*self.rows.shape, -1)

    def total(self, by_visit: Tensor) -> Tensor:
        """Return sums over the visits of each row, ``(T, n, k)``, of ``(T, S, B, k)``."""
        at = self.rows.flatten(1).unsqueeze(-1).expand(-1, -1, by_visit.shape[-1])
        sums = by_visit.new_zeros(len(by_visit), self.count + 1, by_visit.shape[-1])
        return sums.scatter_add_(1, at, by_visit.flatten(1, 2))[:, :-1]


def _on_one_scale(sent: Tensor) -> Tensor:
    """Return embeddings standardized in each epoch, along the same main directions in all of them."""
    return principal(standardized(sent).flatten(1, 2), SENT).view(*sent.shape[:3], -1)


def _centered(received: Tensor) -> Tensor:
    """Return gradients less their mean, in units of their root mean square over the training."""
    return principal(scaled(received.flatten(1, 2)), WIDEST).view(*received.shape[:3], -1)

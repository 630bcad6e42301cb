"""Visits of rows in the order in which a training made them, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
LEAST, MOST = 100, 512
"""Rows of a step, and steps, up to and above which neighboring steps count as one."""


@dataclass(frozen=True, eq=False)
class VisitsByStep:
    """Gradients and embeddings of T members in S steps of at most B rows.

    Attributes:
        columns: ``(T, S, F, B, 1 + q + d)`` a one, the embedding and the gradient of each visit, by the fold of its
            row; 0 where there is no row.
        explaining: ``1 + q``, how many of them explain the rest.
        rows: ``(T, S, F, B)`` the row of each visit; n where there is none.
        visits: ``(T, E * n)`` where the visits of each entry of E stand in S * F * B, row by row.
        times: ``(S,)`` in epochs.
        count: n, the number of rows.
    """

    columns: Tensor
    explaining: int
    rows: Tensor
    visits: Tensor
    times: Tensor
    count: int

    @classmethod
    def of(cls, visits: Visits, rows: Tensor) -> VisitsByStep:
        """Order the visits of drawn rows ``(T, n)``, whose place there is their number from here on."""
        sent, received, places = (taken(x, rows) for x in (visits.sent, visits.received, visits.places.unsqueeze(-1)))
        members, entries, count = places.shape[:3]
        columns = torch.cat([torch.ones_like(received[..., :1]), _on_one_scale(sent), _centered(received)], -1)
        batch = max(1, round(visits.batch * count / visits.places.shape[-1]))  # of a part of the rows, so many a step
        joined = max(-(-min(LEAST, count) // batch), -(-entries * -(-count // batch) // MOST))
        chunk = batch * joined
        order = pad(places.squeeze(-1).argsort(-1), (0, -count % chunk), value=count)  # (T, E, steps * chunk)
        steps = order.shape[-1] // chunk
        by_fold, at = _dealt(order.view(members, entries * steps, chunk), count)
        visits_of_rows = at.view(members, entries, -1).gather(2, order.argsort(dim=-1, stable=True)[..., :count])
        blank = pad(columns, (0, 0, 0, 1)).flatten(1, 2)  # (T, E * (n + 1), w): of each entry a last row of zeros
        entry = torch.arange(entries).repeat_interleave(steps).view(-1, 1, 1) * (count + 1)
        whole = taken(blank, (by_fold + entry).flatten(1)).view(*by_fold.shape, -1)
        within = torch.arange(steps) / steps
        times = (torch.tensor(visits.times).unsqueeze(-1) + within).flatten()
        explaining = columns.shape[-1] - min(received.shape[-1], WIDEST)
        return cls(whole, explaining, by_fold, visits_of_rows.flatten(1), times, count)

    def of_members(self, members: Tensor) -> VisitsByStep:
        """Return the visits of some members, by position or mask."""
        columns, rows, visits = self.columns[members], self.rows[members], self.visits[members]
        return replace(self, columns=columns, rows=rows, visits=visits)

    def gather(self, by_row: Tensor) -> Tensor:
        """Return what belongs to the rows of visits, ``(T, S, F, B, k)``, of ``(T, n, k)``; 0 where there is no row."""
        return taken(pad(by_row, (0, 0, 0, 1)), self.rows.flatten(1)).view(*self.rows.shape, -1)

    def total(self, by_visit: Tensor) -> Tensor:
        """Return sums over the visits of each row, ``(T, n, k)``, of ``(T, S, F, B, k)``."""
        found = taken(by_visit.flatten(1, 3), self.visits)
        return found.view(len(found), -1, self.count, found.shape[-1]).sum(1)


def _dealt(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Deal the rows of steps ``(T, S, chunk)``, n where there is none, into folds: row i is of fold ``i mod F``.

    Returns:
        ``(T, S, F, B)`` rows by fold, n where there is none; and ``(T, S, chunk)`` where each row then stands in
        ``S * F * B``.
    """
    of_fold = one_hot(rows % FOLDS, FOLDS) * (rows < count).unsqueeze(-1)
    rank = of_fold.cumsum(-2)
    most = int(rank.max())
    places = (rows % FOLDS) * most + (rank * of_fold).sum(-1) - 1
    places = torch.where(rows < count, places, FOLDS * most)
    dealt = rows.new_full((*rows.shape[:2], FOLDS * most + 1), count).scatter_(-1, places, rows)[..., :-1]
    starts = torch.arange(rows.shape[1]).view(-1, 1) * FOLDS * most
    return dealt.reshape(*rows.shape[:2], FOLDS, most), places + starts


def _on_one_scale(sent: Tensor) -> Tensor:
    """Return embeddings standardized in each epoch, along the same main directions in all of them."""
    return principal(standardized(sent).flatten(1, 2), SENT).view(*sent.shape[:3], -1)


def _centered(received: Tensor) -> Tensor:
    """Return gradients less their mean, in units of their root mean square over the training."""
    return principal(scaled(received.flatten(1, 2)), WIDEST).view(*received.shape[:3], -1)

"""Labels under a defense that trains on sub-class targets chosen by random numbers of all parties.

A gradient is a fixed direction of its epoch times how far the model's output is from the number taught, plus noise. The
attacker knows its own random number and by it the odds of each part: these alone show the direction, before any label
is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tune_vfl.attacks.parts.columns import WIDEST, principal, scaled, shrunk
from tune_vfl.attacks.parts.folded_rows import FoldedRows, others

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.own_columns import ColumnRegression
    from tune_vfl.attacks.parts.trust import Trust
    from tune_vfl.protocol.mechanism import ClassParts

SPANS = 10
"""Parts of the training over which visits are added up."""
ROUNDS = 18
"""How often parts and directions are fitted in turn: the first fit knows no class, only the odds of the parts."""
_RAREST = 1e-9


def behind_parts(parts: ClassParts, received: Tensor, added: Tensor, own: ColumnRegression, trust: Trust) -> Tensor:
    """Return logits ``(T, n, K)`` of the classes behind their parts, by the attacker's own random numbers.

    Args:
        parts: with one leading axis.
        received: ``(T, E, n, d)`` gradients.
        added: ``(T, n, c)`` the attacker's columns with random numbers.
        own: a regression on the own columns.
        trust: class shares and known rows.
    """
    rows = FoldedRows(torch.arange(received.shape[2]).expand(len(received), -1))
    return _Parts.of(parts, received, added, rows).fitted(own, trust)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Classes split into parts, of rows dealt into folds.

    Attributes:
        gradients: ``(T, F, P, d, n)`` each row's over P spans of the training.
        values: ``(T, 1, K, m, 1)`` the numbers taught, with mean 0; 0 for missing parts.
        odds: ``(T, F, 1, m, n)`` logs of each part's probability by the attacker's own number.
        rows: the folds.
    """

    gradients: Tensor
    values: Tensor
    odds: Tensor
    rows: FoldedRows

    @classmethod
    def of(cls, parts: ClassParts, received: Tensor, added: Tensor, rows: FoldedRows) -> _Parts:
        """Read the parts' values and odds.

        Args:
            parts: with one leading axis.
            received: ``(T, E, N, d)`` gradients of single epochs.
            added: ``(T, N, c)`` the attacker's columns with random numbers.
            rows: the folds.
        """
        spans = torch.arange(received.shape[1]) * min(SPANS, received.shape[1]) // received.shape[1]
        summed = received.new_zeros(len(received), int(spans.max()) + 1, *received.shape[2:])
        summed = principal(scaled(summed.index_add_(1, spans, scaled(received))), WIDEST)
        odds = rows.fold(parts.odds(added)).clamp(min=_RAREST).log().unsqueeze(2)
        finite = parts.values.isfinite()
        mean = (parts.values.masked_fill(~finite, 0).sum((-1, -2)) / finite.sum((-1, -2)))[..., None, None]
        values = torch.where(finite, parts.values - mean, 0.0)
        return cls(rows.fold(summed), values[:, None, ..., None].float(), odds, rows)

    def fitted(self, own: ColumnRegression, trust: Trust) -> Tensor:
        """Return logits ``(T, n, K)``; gradients need no label for it, known ones say what the own columns hold.

        Args:
            own: a regression on the own columns.
            trust: class shares and known rows.
        """
        logits = trust.prior.expand(-1, self.rows.order.shape[-1], -1)
        start = trust.by_known(own)
        evidence = torch.zeros_like(self.odds)
        for _ in range(ROUNDS):
            within = (self.odds + evidence).softmax(-2)  # (T, F, K, m, n)
            shares = self.rows.fold(logits.exp())  # (T, F, K, n)
            evidence = self._evidence(shares.unsqueeze(3) * within)
            said = self.rows.unfold((self.odds + evidence).logsumexp(-2)).mT
            gates = [start, *trust.sharpened(own.by_all(trust.pinned(logits.exp())))]
            said, gate = trust.chosen([said], gates)
            logits = trust.balanced(said + gate)
        return logits

    def _evidence(self, share: Tensor) -> Tensor:
        """Return log likelihoods ``(T, F, K, m, n)`` of all parts, up to a constant of the row.

        Args:
            share: ``(T, F, K, m, n)`` probabilities, 0 for missing rows.
        """
        u = self.gradients
        value, square = (share * self.values).sum((2, 3)), (share * self.values.square()).sum((2, 3))  # (T, F, n)
        count = others(self.rows.mask.sum((-1, -2, -3)).expand(len(u), -1))[..., None, None, None]
        total, norm = (others(x.sum(-1))[..., None, None, None] for x in (value, square))
        along = others(u @ value[:, :, None, :, None]).mT  # (T, F, P, 1, d)
        mean = others(u.sum(-1)).unsqueeze(-2)
        spread = (norm - total.square() / count).clamp(min=1e-6)
        jump = (along - total / count * mean) / spread
        products = others(u @ u.mT) - mean.mT @ mean / count
        noise = shrunk((products - spread * jump.mT @ jump).double() / count)
        scored = torch.linalg.solve(noise, jump.mT.double()).float().mT  # (T, F, P, 1, d)
        told = (scored @ (u - (mean / count).mT)).sum(2)  # (T, F, 1, n)
        size = (scored * jump).sum((2, 3, 4))[..., None, None, None]  # (T, F, 1, 1, 1)
        apart = self.values - (total / count)
        found: Tensor = apart * told.unsqueeze(2) - apart.square() / 2 * size
        return found

"""Starting points of EM for the labels: regressions of a few labels on an attacker's columns and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tune_vfl.attacks.parts.columns import principal, standardized
from tune_vfl.attacks.parts.kmeans import unit
from tune_vfl.attacks.parts.logistic import fit_logistic, logits_of
from tune_vfl.attacks.parts.visit_model import SENT
from tune_vfl.protocol.members import gather_rows

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.folds import Labeled
    from tune_vfl.protocol.visits import Visits

STRENGTH, GROUP = 0.3, 32.0
"""C of the regressions, and the summed variance of each group of columns in them."""
_TEMPERS = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0)


@dataclass(frozen=True, eq=False)
class Starts:
    """Logits by few labels, each fitted when it is first asked for.

    Attributes:
        columns: ``(T, N, w)`` standardized columns of the attacker.
        visits: with one leading axis.
        labeled: the known rows, with the same axis.
    """

    columns: Tensor
    visits: Visits
    labeled: Labeled

    @cached_property
    def own(self) -> Tensor:
        """``(T, N, K)`` by the own columns alone, as sure as rows that were held out bear out."""
        logits, held_out = _fitted([self.columns], self.labeled)
        losses = torch.stack([self.labeled.log_loss((held_out * t).log_softmax(-2)) for t in _TEMPERS], -1)
        return logits * torch.tensor(_TEMPERS)[losses.argmin(-1)][:, None, None]

    @cached_property
    def with_means(self) -> Tensor:
        """``(T, N, K)`` by the own columns and each row's mean gradient."""
        return _fitted([self.columns, self.visits.received_means.mean(1)], self.labeled)[0]

    @cached_property
    def all(self) -> Tensor:
        """``(T, 3, N, K)``: that one, and those by directions of the first epoch's gradients and by mean directions."""
        first, mean = unit(self.visits.received[:, 0]), self.visits.direction_means.mean(1)
        return torch.stack([self.with_means, *(_fitted([x], self.labeled)[0] for x in (first, mean))], 1)

    @property
    def explained(self) -> Tensor:
        """``(T, N, c)`` functions of the own columns alone, which a jump of the gradient must go beyond."""
        odds = self.own[..., 1:] - self.own[..., :1]
        return principal(standardized(torch.cat([odds, self.own.softmax(-1)[..., 1:]], -1)), SENT)


def _fitted(groups: list[Tensor], labeled: Labeled) -> tuple[Tensor, Tensor]:
    """Return logits ``(T, N, K)`` of all rows, and log probabilities of labeled rows by the fits without them."""
    columns = torch.cat([standardized(g) * (GROUP / g.shape[-1]) ** 0.5 for g in groups], -1)
    known = gather_rows(columns, labeled.ids)
    every = torch.ones_like(labeled.y).unsqueeze(-2).float()
    weights = torch.cat([1 - labeled.held_out, every], -2)
    strength = torch.tensor([STRENGTH])
    found = fit_logistic(known, labeled.y, weights, strength, num_classes=labeled.num_classes)[:, 0]
    held_out = labeled.said_of_held_out(logits_of(known.unsqueeze(1), found[:, :-1]).mT)
    return logits_of(columns, found[:, -1]), held_out

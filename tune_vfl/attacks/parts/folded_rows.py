"""Rows dealt into folds that lie side by side, each scored by a model that was fitted on the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from tune_vfl.attacks.parts.columns import taken

FOLDS = 4


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """An order of rows and their folds: row i of the order belongs to fold ``i mod F``.

    Attributes:
        order: ``(T, M)`` positions in the training split of T members.
    """

    order: Tensor

    @property
    def size(self) -> int:
        """Rows of a fold, the last one of which may be missing in some folds."""
        return -(-self.order.shape[-1] // FOLDS)

    @property
    def mask(self) -> Tensor:
        """``(F, 1, 1, n)``: 1 for a row, 0 in the place of a missing one."""
        places = torch.arange(FOLDS).view(-1, 1, 1, 1) + FOLDS * torch.arange(self.size)
        return (places < self.order.shape[-1]).float()

    def fold(self, rows: Tensor) -> Tensor:
        """Deal ``(T, ..., N, d)`` rows of the split: ``(T, F, ..., d, n)``, zeros in the place of missing rows."""
        whole = pad(self.order, (0, self.size * FOLDS - self.order.shape[-1]))
        places = whole.view(-1, self.size, FOLDS).mT.flatten(1)
        found = taken(rows, places)
        dealt = found.view(*found.shape[:-2], FOLDS, self.size, -1).movedim(-3, 1).mT.contiguous()
        return dealt.mul_(self.mask.view(FOLDS, *[1] * (dealt.dim() - 3), self.size))

    def unfold(self, folded: Tensor) -> Tensor:
        """Return ``(T, F, ..., n)`` as ``(T, ..., M)`` in the order of the rows."""
        whole = folded.movedim(1, -1).flatten(-2)
        return whole[..., : self.order.shape[-1]]


def others(parts: Tensor, folds: int = 1) -> Tensor:
    """Return, for sums by fold, whose axis is ``folds``, the sums over all other folds."""
    return parts.sum(folds, keepdim=True) - parts

"""Rows dealt into folds that lie side by side, each scored by a model that was fitted on the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

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
        ones = torch.ones(1, self.order.shape[-1])
        return self._dealt(ones).view(FOLDS, 1, 1, self.size)

    def fold(self, rows: Tensor) -> Tensor:
        """Deal ``(T, ..., N, d)`` rows of the split: ``(T, F, ..., d, n)``, zeros in the place of missing rows."""
        axes = rows.dim() - 3
        at = self.order.view(len(self.order), *[1] * axes, -1, 1)
        taken = rows.gather(-2, at.expand(*rows.shape[:-2], self.order.shape[-1], rows.shape[-1]))
        return self._dealt(taken.transpose(-1, -2)).movedim(-2, 1).contiguous()

    def _dealt(self, columns: Tensor) -> Tensor:
        whole = pad(columns, (0, self.size * FOLDS - columns.shape[-1]))
        return whole.view(*whole.shape[:-1], self.size, FOLDS).transpose(-1, -2)

    def unfold(self, folded: Tensor) -> Tensor:
        """Return ``(T, F, ..., n)`` as ``(T, ..., M)`` in the order of the rows."""
        whole = folded.movedim(1, -1).flatten(-2)
        return whole[..., : self.order.shape[-1]]


def others(parts: Tensor) -> Tensor:
    """Return, for sums by fold ``(T, F, ...)``, the sums over all other folds."""
    return parts.sum(1, keepdim=True) - parts

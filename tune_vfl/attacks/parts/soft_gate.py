"""Class probabilities by an attacker's own columns: logistic regressions on soft labels, each without a fold."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.attacks.parts.folded_rows import FOLDS, FoldedRows, others
from tune_vfl.attacks.parts.visit_evidence import odds_of, of_start, softmax

STRENGTH = 0.3
"""C of the regressions."""
_STEPS, _STEPS_OF_MANY = 6, 12
"""Of two classes, and of more, whose curvature is bounded less tightly."""
_APART = torch.tensor([[g for g in range(FOLDS) if g != f] for f in range(FOLDS)])
"""``(F, F - 1)`` the fits that each fold takes part in."""


class SoftGate:
    """Learns classes from soft labels of all rows; a row is judged by the regression without its fold.

    Args:
        columns: ``(T, N, w)`` standardized.
        rows: the folds.
    """

    def __init__(self, columns: Tensor, rows: FoldedRows) -> None:
        folded = rows.fold(columns)
        self._design = torch.cat([folded, rows.mask.view(1, FOLDS, 1, -1).expand(len(folded), -1, -1, -1)], -2)
        width = self._design.shape[-2]
        curvature = others((self._design @ self._design.mT).double()) / 2
        ridge = torch.ones(width, dtype=torch.float64)
        ridge[-1] = 1e-6
        self._ridge = ridge.float()
        # The curvature of a cross-entropy is at most half of the columns' products (Boehning 1992).
        self._inverse = torch.linalg.inv(STRENGTH * curvature + torch.diag(ridge)).float().unsqueeze(2)
        self._fitted: Tensor | None = None

    def learn(self, shares: Tensor) -> Tensor:
        """Go on from the last coefficients; return each row's log odds ``(T, F, S, K - 1, n)`` against the first class.

        Args:
            shares: ``(T, F, S, K, n)`` soft labels, 0 for missing rows.
        """
        # The coefficients of all classes add up to 0: those of two classes are each other's opposite.
        target = shares[:, :, :, 1:] if shares.shape[3] == 2 else shares
        if self._fitted is None:
            self._fitted = target.new_zeros(*target.shape[:-1], self._design.shape[-2])
        ahead = before = self._fitted
        for step in range(_STEPS if shares.shape[3] == 2 else _STEPS_OF_MANY):
            moved = ahead - (self._slope(ahead, target) + self._ridge * ahead) @ self._inverse
            ahead, before = moved + step / (step + 3) * (moved - before), moved
        self._fitted = before
        logits = (before.flatten(2, 3) @ self._design).view(target.shape)
        return 2 * logits if target is not shares else odds_of(logits)

    def keep(self, at: Tensor) -> None:
        """Go on with the coefficients of one start of each member, ``(T, 1)`` positions."""
        if self._fitted is not None:
            self._fitted = of_start(self._fitted, at)

    def _slope(self, at: Tensor, target: Tensor) -> Tensor:
        """Return the gradient ``(T, F, S, K, w)`` of the fit without each fold."""
        fits = at[:, _APART]  # (T, F, F - 1, S, K, w)
        logits = (fits.flatten(2, 4) @ self._design).view(*fits.shape[:-1], -1)
        # Of missing rows the design is 0, so that what is said of them does not count.
        said = logits.mul_(2).sigmoid_() if at.shape[3] == 1 else softmax(logits)
        pull = said.sub_(target.unsqueeze(2)).flatten(2, 4) @ self._design.mT
        return STRENGTH * torch.zeros_like(at).index_add_(1, _APART.flatten(), pull.view(fits.shape).flatten(1, 2))

"""Max-Norm: every row of the cut gradient gets the same expected norm."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.hooks import Context


@defense("max_norm")
class MaxNorm(Defense):
    """Stretches each row along itself by 1 + n * sigma, n ~ N(0, 1) drawn once a row, afresh at each step.

    sigma_i = sqrt(max_j ||g_j||^2 / ||g_i||^2 - 1), so that the expected squared norm of every row is the batch's
    largest one. Rows of zeros stay zero. It has no parameters; it was made for two classes and runs for any number. The
    direction of a row survives up to its sign, so attacks that read directions still work. Source: Li et al. 2022.
    """

    summary = "noise along each row that hides its norm"
    reference = "Li et al. 2022, Label Leakage and Protection in Two-party Split Learning"
    paper_attacks = ("norm", "direction")
    capabilities = DefenseCapabilities(stackable=True, random=("gradients",))

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with each row stretched; same shape and dtype."""
        norms = grad.square().sum(-1, keepdim=True)
        ratio = norms.amax(-2, keepdim=True) / (norms + 1e-32)
        # A tiny row beside a huge one may overflow the ratio; a finite one keeps 0 * ratio at 0.
        sigma = (ratio - 1).clamp(0, torch.finfo(grad.dtype).max).sqrt()
        draws = self.streams[f"cut/{party}"].normal(grad.shape[-2], 1).to(grad.dtype)
        return grad * (1 + draws * sigma)

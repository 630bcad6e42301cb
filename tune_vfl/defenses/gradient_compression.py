"""Gradient compression: only the largest entries of the cut gradient leave."""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict


class GradientCompressionParams(Strict):
    """Parameters of :class:`GradientCompression`."""

    keep: float = Field(
        0.75, gt=0, le=1, description="share of the entries of a batch's gradient that are kept; 1 keeps all of them"
    )


def top_thresholds(magnitudes: Tensor, counts: list[int]) -> Tensor:
    """Return each row's n-th largest number.

    Args:
        magnitudes: ``(T, M)``, not negative.
        counts: T numbers n, each at most M; n = 0 gives infinity.

    Returns:
        ``(T,)``.
    """
    total = magnitudes.shape[-1]
    found = torch.full_like(magnitudes[:, 0], math.inf)
    for count in sorted(set(counts) - {0}):
        rows = [t for t, n in enumerate(counts) if n == count]
        # Selection instead of a sort, once for all the rows with the same n.
        if len(rows) == len(counts):
            return magnitudes.kthvalue(total - count + 1, dim=-1).values
        index = torch.tensor(rows, device=magnitudes.device)
        found.index_copy_(0, index, magnitudes.index_select(0, index).kthvalue(total - count + 1, dim=-1).values)
    return found


@defense("gradient_compression")
class GradientCompression(Defense):
    """Keeps the entries with the largest magnitude over the whole batch, per party, and sets the others to zero.

    With n = floor(keep * B * d), an entry is kept when its magnitude is strictly greater than the n-th largest one:
    n - 1 entries survive, and all that tie with the threshold are dropped, as in the reference code. ``keep`` = 1 is
    the exact identity. Nothing is accumulated or rescaled. Source: Fu et al. 2022 (methods.md 2.3).
    """

    summary = "only the largest entries of the cut gradient"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    Params = GradientCompressionParams
    weakest = {"keep": 1.0}  # noqa: RUF012 - read only, as its declaration in the base says
    capabilities = DefenseCapabilities()

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with the small entries set to zero; same shape and dtype."""
        keeps = self.values("keep")
        size = grad.shape[-2] * grad.shape[-1]
        magnitudes = grad.abs()
        thresholds = top_thresholds(magnitudes.reshape(-1, size), [math.floor(keep * size) for keep in keeps])
        if 1.0 in keeps:
            everything = torch.tensor([keep == 1.0 for keep in keeps], device=grad.device)
            thresholds = thresholds.masked_fill(everything, -1.0)  # below every magnitude
        kept = magnitudes > thresholds.view(*grad.shape[:-2], 1, 1)
        return torch.where(kept, grad, torch.zeros((), dtype=grad.dtype, device=grad.device))

"""Gradient compression: only the largest entries of the cut gradient leave."""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.selection import keep_largest
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import BOTH, Strict


class GradientCompressionParams(Strict):
    """Parameters of :class:`GradientCompression`."""

    keep: float = Field(
        0.75, gt=0, le=1, description="share of the entries of a batch's gradient that are kept; 1 keeps all of them"
    )


@defense("gradient_compression")
class GradientCompression(Defense[GradientCompressionParams]):
    """Keeps the entries with the largest magnitude over the whole batch, per party, and sets the others to zero.

    With n = floor(keep * B * d), an entry is kept when its magnitude is strictly greater than the n-th largest one:
    n - 1 entries survive, and all that tie with the threshold are dropped, as in the reference code. ``keep`` = 1 is
    the exact identity. NaN is sent. Nothing is accumulated or rescaled. In the horizontal setting a client's whole
    update stands for the batch. Source: Fu et al. 2022.
    """

    summary = "only the largest entries of the cut gradient, or of a client's update"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    paper_attacks = ("pmc", "active", "direct")
    Params = GradientCompressionParams
    weakest = {"keep": 1.0}  # noqa: RUF012 - read only, as its declaration in the base says
    capabilities = DefenseCapabilities(stackable=True, federations=BOTH)

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with the small entries set to zero; same shape and dtype."""
        return self._largest(grad)

    def client_update(self, update: Tensor, *, taking: Tensor) -> Tensor:
        """Return the large entries of a client's update, zero elsewhere."""
        return self._largest(update)

    def _largest(self, grad: Tensor) -> Tensor:
        size = grad.shape[-2] * grad.shape[-1]
        ranks = [math.floor(keep * size) if keep < 1 else size + 1 for keep in self.values(lambda p: p.keep)]
        return keep_largest(grad.reshape(-1, size), ranks, ties=False).view(grad.shape)

"""Isotropic Gaussian noise as strong as the longest row of the batch asks for."""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor
from torch.linalg import vector_norm

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict


class IsoParams(Strict):
    """Parameters of :class:`Iso`."""

    ratio: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        description="expected length of a row's noise, in units of the longest row of the batch; 0 adds none",
    )


@defense("iso")
class Iso(Defense[IsoParams]):
    """Adds N(0, s^2) noise to each entry, s = ``ratio`` * max_i ||g_i|| / sqrt(d), the maximum over the batch.

    So the root mean square length of a row's noise is ``ratio`` times the longest row, whatever d, the loss and the
    size of the batch. Source: the isotropic baseline of Li et al. 2022.
    """

    summary = "Gaussian noise in proportion to the longest gradient row"
    reference = "Li et al. 2022, Label Leakage and Protection in Two-party Split Learning"
    paper_attacks = ("norm", "direction")
    Params = IsoParams
    capabilities = DefenseCapabilities(stackable=True, random=("gradients",))
    weakest = {"ratio": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with noise added; same shape and dtype."""
        batch, d = grad.shape[-2:]
        longest: Tensor = vector_norm(grad, dim=-1).amax(-1).unsqueeze(-1).unsqueeze(-1)
        noise = self.streams[f"cut/{party}"].normal(batch, d)
        return grad + (noise * self.number(lambda p: p.ratio)).to(grad.dtype) * longest / math.sqrt(d)

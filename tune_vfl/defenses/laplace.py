"""Noisy gradients: Laplace noise on every entry of the cut gradient."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor
from torch.linalg import vector_norm

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict


class LaplaceParams(Strict):
    """Parameters of :class:`Laplace`."""

    scale: float = Field(
        1e-3,
        ge=0,
        allow_inf_nan=False,
        description="scale b of the noise, in units of the gradient of the batch-mean loss; 0 adds none",
    )
    clip: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="the whole batch is scaled down before the noise until no row is longer; not by default",
    )


@defense("laplace")
class Laplace(Defense[LaplaceParams]):
    """Adds independent Laplace(0, ``scale``) noise to each entry, afresh at each step; nothing is clipped by default.

    The scale is an absolute number against gradients of a batch mean, so that twice the batch is twice the noise. With
    ``clip`` a batch is first divided by max(1, longest row / ``clip``), as VFLAIR does with 0.2, where rows of a batch
    of 8 or more hardly ever are that long; one long row then shortens all. Source: the noisy-gradient defense of Fu et
    al. 2022.
    """

    summary = "Laplace noise on the cut gradient"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    Params = LaplaceParams
    capabilities = DefenseCapabilities(scale_sensitive=True, random=("gradients",))
    weakest = {"scale": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with noise added; same shape and dtype."""
        noise = self.streams[f"cut/{party}"].laplace(*grad.shape[-2:])
        return self._scaled(grad) + (noise * self.number(lambda p: p.scale)).to(grad.dtype)

    def _scaled(self, grad: Tensor) -> Tensor:
        clip = self.optional_number(lambda p: p.clip)
        if clip is None:
            return grad
        longest: Tensor = vector_norm(grad, dim=-1, keepdim=True).amax(-2, keepdim=True)
        return grad / (longest / clip).clamp_min(1).to(grad.dtype)

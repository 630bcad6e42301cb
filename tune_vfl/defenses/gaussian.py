"""Gaussian noise on every entry of the cut gradient."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor
from torch.linalg import vector_norm

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict


class GaussianParams(Strict):
    """Parameters of :class:`Gaussian`."""

    sigma: float = Field(
        1e-2,
        ge=0,
        allow_inf_nan=False,
        description="standard deviation of the noise, in units of the gradient of the batch-mean loss; 0 adds none",
    )
    clip: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="largest norm of a row before the noise; none by default"
    )


@defense("gaussian")
class Gaussian(Defense):
    """Adds independent N(0, ``sigma``^2) noise to each entry, afresh at each step, after clipping rows if asked to.

    Without ``clip`` nothing bounds a row's influence, so that no privacy budget can be computed from ``sigma``. Like
    Laplace noise it is an absolute number against gradients of a batch mean. Source: the differential-privacy baseline
    of FedAdOb.
    """

    summary = "Gaussian noise on the cut gradient"
    reference = "Gu et al. 2024, FedAdOb: the baseline DP"
    Params = GaussianParams
    capabilities = DefenseCapabilities(scale_sensitive=True, random=("gradients",))
    weakest = {"sigma": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad``, clipped row by row where asked for, with noise added; same shape and dtype."""
        noise = self.streams[f"cut/{party}"].normal(*grad.shape[-2:])
        return self._clipped(grad) + (noise * self.number("sigma")).to(grad.dtype)

    def _clipped(self, grad: Tensor) -> Tensor:
        if getattr(self.members[0], "clip", None) is None:
            return grad
        excess: Tensor = vector_norm(grad, dim=-1, keepdim=True) / self.number("clip")
        return grad / excess.clamp_min(1).to(grad.dtype)

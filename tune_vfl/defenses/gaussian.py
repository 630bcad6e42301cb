"""Gaussian noise on every entry of the cut gradient, or of the embedding."""

from __future__ import annotations

from typing import Literal

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
        description="standard deviation of the noise, in units of what it is added to; 0 adds none",
    )
    clip: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="largest norm of a row before the noise; none by default"
    )
    where: Literal["gradients", "embeddings"] = Field(
        "gradients", description="what gets the noise: the gradients that leave the label party, or what it is sent"
    )


@defense("gaussian")
class Gaussian(Defense[GaussianParams]):
    """Adds independent N(0, ``sigma``^2) noise to each entry, afresh at each step, after clipping rows if asked to.

    Without ``clip`` nothing bounds a row's influence, so that no privacy budget can be computed from ``sigma``. Like
    Laplace noise it is an absolute number against gradients of a batch mean. With ``where="embeddings"`` the passive
    parties run it, in training and at inference, against a label party that reads features: their own bottom models
    and the gradients that they receive stay without noise, so that attacks on labels lose little. Source: the
    differential-privacy baseline of FedAdOb, on gradients against label attacks and on embeddings against inversion.
    """

    summary = "Gaussian noise on the cut gradient, or on the embedding"
    reference = "Gu et al. 2024, FedAdOb: the baseline DP"
    Params = GaussianParams
    capabilities = DefenseCapabilities(run_by="both", scale_sensitive=True, random=("gradients",))
    weakest = {"sigma": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad``, clipped row by row where asked for, with noise added; same shape and dtype."""
        return grad if self._on_embeddings else self._noised(grad, f"cut/{party}")

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """H3: the same for what a passive party sends, where the noise is there."""
        return self._noised(embedding, f"sent/{party}") if self._on_embeddings else embedding

    @property
    def _on_embeddings(self) -> bool:
        return self.shared.where == "embeddings"

    def _noised(self, rows: Tensor, stream: str) -> Tensor:
        noise = self.streams[stream].normal(*rows.shape[-2:])
        return self._clipped(rows) + (noise * self.number(lambda p: p.sigma)).to(rows.dtype)

    def _clipped(self, rows: Tensor) -> Tensor:
        clip = self.optional_number(lambda p: p.clip)
        if clip is None:
            return rows
        excess: Tensor = vector_norm(rows, dim=-1, keepdim=True) / clip
        return rows / excess.clamp_min(1).to(rows.dtype)

    def notes(self, member: int = 0) -> list[str]:
        """Return a note on what noise on embeddings leaves open."""
        if not self._on_embeddings:
            return []
        return [
            "gaussian: the noise is on embeddings; gradients leave as they are, and passive parties' models have none"
        ]

"""Gaussian noise on every entry of the cut gradient, or of the embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor
from torch.linalg import vector_norm

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import BOTH, SUMS, Strict
from tune_vfl.statistics.privacy import DELTA, composed, epsilon_of


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
    """Adds independent ``N(0, sigma²)`` noise to each entry at each step, after optional clipping of rows.

    Without ``clip`` nothing bounds a row's influence, so that no privacy budget can be computed from ``sigma``. Like
    Laplace noise it is an absolute number against gradients of a batch mean. With ``where="embeddings"`` the passive
    parties run it, in training and at inference, against a label party that reads features: their own bottom models
    and the gradients that they receive stay without noise, so that attacks on labels lose little.

    In a federation of sums it is each row's residual that gets the noise, before it is encrypted (the additive noise of
    Tan et al. 2022); sums then hold a batch's worth of it.

    In the horizontal setting a row is the whole update that a client uploads, and with ``clip`` a budget follows,
    logged as ``epsilon`` at delta 1e-5. Its unit is a client: it says how well the server tells all that a client has
    uploaded from what a client without rows would have. (From what it would have uploaded with other rows: as for twice
    the ``clip``.) The server sees who takes part and each one's own update, so that being drawn at random hides nobody;
    the fewer rounds a client takes part in, the smaller its budget. Every upload counts, the single steps that ``wgi``
    and ``bgi`` read among them. Source: the differential-privacy baseline of
    FedAdOb, on gradients against label attacks and on embeddings against inversion; clipped updates as in McMahan et
    al. 2018, noise at the client.
    """

    summary = "Gaussian noise on the cut gradient, on the embedding, or on a client's update"
    reference = (
        "Gu et al. 2024, FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation (baseline DP)"
    )
    paper_attacks = ("pmc",)
    Params = GaussianParams
    capabilities = DefenseCapabilities(
        stackable=True, run_by="both", scale_sensitive=True, random=("gradients",), federations=BOTH | SUMS
    )
    weakest = {"sigma": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def begin(self) -> None:
        """H0: no update has left."""
        self._releases: Tensor | None = None

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad``, optionally clipped row by row, with noise added; same shape and dtype."""
        return grad if self._on_embeddings else self._noised(grad, f"cut/{party}")

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """H3: the same for a passive party's embedding, if the noise is configured there."""
        return self._noised(embedding, f"sent/{party}") if self._on_embeddings else embedding

    def client_update(self, update: Tensor, *, taking: Tensor) -> Tensor:
        """Return a client's update, optionally clipped as a whole, with noise added."""
        so_far = taking.reshape(-1).long()
        self._releases = so_far if self._releases is None else self._releases + so_far
        return update if self._on_embeddings else self._noised(update, "update")

    def also_uploaded(self, times: int) -> None:
        """Count uploads that a copy of this defense noised."""
        if self._releases is not None:
            self._releases = self._releases + times

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

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``epsilon`` of all updates that a client has uploaded, at delta 1e-5; infinite without noise."""
        clip = self.shared.clip
        if self._releases is None or clip is None or self._on_embeddings:
            return {}
        members = zip(self._releases.tolist(), self.members, strict=True)
        mus = [composed(times, sensitivity=p.clip or 0.0, sigma=p.sigma) for times, p in members]
        return {"epsilon": [epsilon_of(mu) for mu in mus]}

    def notes(self, member: int = 0) -> list[str]:
        """Return notes on the limits of noise on embeddings, or on the privacy budget."""
        if self._on_embeddings:
            return ["gaussian: the noise is on embeddings; gradients, updates and the models themselves have none"]
        if self._releases is None:
            return []
        if self.shared.clip is None or self.members[member].sigma == 0:
            missing = "nothing bounds a client's update (clip)" if self.shared.clip is None else "there is no noise"
            return [f"gaussian: {missing}, so that no privacy budget follows"]
        budget = (
            f"gaussian: epsilon, at delta {DELTA:g}, is the budget of the client under attack over all its uploads, "
            "the rounds that it takes part in and the single steps that attacks read, compared with a client without "
            "rows, before a server that sees each client's own update; running statistics of batch norms are no part "
            "of it"
        )
        return [budget]

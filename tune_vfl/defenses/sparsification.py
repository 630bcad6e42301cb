"""Sparsification: send only the largest entries, and accumulate the others in a residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.selection import keep_largest
from tune_vfl.protocol.hooks import Context
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.spec import BOTH, Strict


class SparsificationParams(Strict):
    """Parameters of :class:`Sparsification`."""

    drop: float = Field(0.99, ge=0, lt=1, description="share of the entries of a batch that are held back; 0 sends all")
    residual: bool = Field(True, description="whether what is held back is added to the party's next gradient")
    residual_on_resize: Literal["drop", "per_size"] = Field(
        "drop",
        description="when the batch size changes: the residual is dropped, or each size has a residual of its own",
    )
    where: Literal["gradients", "embeddings"] = Field(
        "gradients", description="what is thinned out: the gradients that leave the label party, or what it is sent"
    )


def quantile_ranks(drops: Sequence[float], size: int) -> list[int]:
    """Return, for each share, how many of ``size`` numbers without ties are at or above their quantile of it.

    With linear interpolation at h = share * (size - 1), what is not below the quantile is what is not below the number
    at place ceil(h) in ascending order: one selection instead of two.
    """
    return [size - math.ceil(drop * (size - 1)) for drop in drops]


@defense("sparsification")
class Sparsification(Defense[SparsificationParams]):
    """Sends the entries of ``u = gradient + residual`` not below the ``drop``-quantile of ``|u|`` over the batch.

    The rest becomes the party's residual. A residual belongs to places in the batch, not to rows: what one row held
    back is sent as part of another's gradient. It only fits batches of its own size, see ``residual_on_resize``.
    Entries that are not finite are sent, so that they do not stay. With ``where="embeddings"`` the passive parties do
    this to what they send, in training and at inference; their own models and the gradients stay whole, so that
    attacks on labels lose little.

    In the horizontal setting a client does it to its whole update, and its residual waits for the next round that it
    takes part in: there places are parameters, as they are for Lin et al. With ``where="embeddings"`` a residual lasts
    for a round. Source: the sparsification baseline of FedAdOb, with the residual of Lin et al. 2018.
    """

    summary = "only the largest entries of what is sent, the rest kept for later"
    reference = (
        "Lin et al. 2018, Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training"
    )
    paper_attacks = ("pmc",)
    Params = SparsificationParams
    weakest = {"drop": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says
    capabilities = DefenseCapabilities(stackable=True, run_by="both", federations=BOTH)

    def begin(self) -> None:
        """H0: forget earlier residuals."""
        self._residuals: dict[tuple[int, int], Tensor] = {}

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return the large entries of ``grad`` and the residual, zero elsewhere; same shape and dtype."""
        return grad if self._on_embeddings else self._thinned(grad, party)

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """H3: the same for a passive party's embedding, if embeddings are sparsified."""
        return self._thinned(embedding, party) if self._on_embeddings else embedding

    def client_update(self, update: Tensor, *, taking: Tensor) -> Tensor:
        """Return the large entries of a client's update and residual, zero elsewhere."""
        if self._on_embeddings:
            self.begin()  # nor has a client that only trained along, and takes no part, a residual
            return update
        before = self._residuals.get((0, 1))
        sent = self._thinned(update, 0)
        if (after := self._residuals.get((0, 1))) is not None:
            kept = torch.zeros_like(after) if before is None else before
            self._residuals[0, 1] = torch.where(taking, after, kept)
        return sent

    def mechanism(self) -> Mechanism | None:
        """Return when a residual of gradients is forgotten; None where there is none."""
        if self._on_embeddings or not self.shared.residual:
            return None
        return Mechanism(unsent="dropped_on_resize" if self.shared.residual_on_resize == "drop" else "kept_by_size")

    @property
    def _on_embeddings(self) -> bool:
        return self.shared.where == "embeddings"

    def _thinned(self, rows: Tensor, party: int) -> Tensor:
        waiting = self._waiting(rows, party)
        whole = rows if waiting is None else rows + waiting.to(rows.dtype)
        size = rows.shape[-2] * rows.shape[-1]
        ranks = quantile_ranks(self.values(lambda p: p.drop), size)
        sent = keep_largest(whole.reshape(-1, size), ranks, ties=True).view(rows.shape)
        if self.shared.residual:
            # Detached: the next step adds the residual as a constant and must not go back into this step's graph.
            # Entries that are not finite were sent whole; infinity less infinity is NaN, which must not stay.
            self._residuals[party, rows.shape[-2]] = torch.nan_to_num_(whole.detach() - sent.detach(), nan=0.0)
        return sent

    def _waiting(self, rows: Tensor, party: int) -> Tensor | None:
        """Return the party's residual for a batch of this size; drop residuals that a change of size invalidates."""
        batch = rows.shape[-2]
        if self.shared.residual_on_resize == "drop":
            self._residuals = {key: r for key, r in self._residuals.items() if key[0] != party or key[1] == batch}
        return self._residuals.get((party, batch))

    def notes(self, member: int = 0) -> list[str]:
        """Return a note on the limits of sparsified embeddings."""
        if not self._on_embeddings:
            return []
        return ["sparsification: embeddings are thinned out; gradients, updates and the models themselves stay whole"]

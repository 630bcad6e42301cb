"""PPDL: a share of the entries leaves, chosen and disturbed by the sparse vector technique."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.sparse_vector import accepted_places
from tune_vfl.protocol.hooks import Context
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.spec import Strict

CHOOSING, RELEASING = 8 / 9, 2 / 9
"""Shares of epsilon that the choice and the release are noised with, as the released code of Fu et al. has them."""


class PpdlParams(Strict):
    """Parameters of :class:`Ppdl`."""

    theta: float = Field(0.75, gt=0, le=1, description="share of the entries of a batch that is to be released")
    on_exhaust: Literal["leave", "zero"] = Field(
        "leave",
        description="entries that were not accepted when all were visited before the share was reached: left raw, or 0",
    )
    epsilon: float = Field(1.8, gt=0, allow_inf_nan=False, description="privacy budget of a batch; less is more noise")
    sensitivity: float = Field(1.0, gt=0, allow_inf_nan=False, description="factor of every noise")
    bound: float = Field(1e-3, gt=0, allow_inf_nan=False, description="entries are clipped to [-bound, bound]")
    tau: float = Field(1e-4, ge=0, allow_inf_nan=False, description="threshold that a magnitude has to reach")


@defense("ppdl")
class Ppdl(Defense[PpdlParams]):
    """Visits the entries of a batch in random order and releases c = floor(theta * B * d) of them.

    An entry is accepted when its clipped magnitude plus noise reaches tau plus the current noise of the threshold,
    which is drawn again after each acceptance. It is released as clip(entry + noise). When c entries are accepted, all
    others are 0. Where the entries run out first, ``on_exhaust="leave"`` sends the others as they were, as the released
    code does: about 63% of the raw entries for every theta above 0.37. ``"zero"`` sends 0 for them. The noise is in
    proportion to c: with hundreds of entries it is far above ``bound``, so that what is released is a coin's sign.
    Source: Shokri and Shmatikov 2015, as Fu et al. 2022 use it.
    """

    summary = "a random share of the cut gradient's entries, clipped and noised"
    reference = (
        "Shokri and Shmatikov 2015, Privacy-Preserving Deep Learning; Fu et al. 2022, Label Inference Attacks "
        "Against Vertical Federated Learning"
    )
    paper_attacks = ("pmc", "active", "direct")
    Params = PpdlParams
    capabilities = DefenseCapabilities(stackable=True, scale_sensitive=True, random=("gradients",))

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return the released entries, and the others as they were or 0; same shape and dtype."""
        entries = grad.reshape(-1, grad.shape[-2] * grad.shape[-1])
        size = entries.shape[-1]
        stream = self.streams[f"cut/{party}"]
        order = stream.permutation(size).view(-1, size)
        noise = stream.laplace(3, size).view(-1, 3, size).to(grad.dtype)
        counts = [math.floor(theta * size) for theta in self.values(lambda p: p.theta)]
        choosing, releasing = self._scales(counts, CHOOSING, grad), self._scales(counts, RELEASING, grad)
        bound = torch.tensor(self.values(lambda p: p.bound), dtype=grad.dtype, device=grad.device).unsqueeze(-1)
        tau = torch.tensor(self.values(lambda p: p.tau), dtype=grad.dtype, device=grad.device).unsqueeze(-1)
        visited = entries.gather(-1, order)
        magnitudes = torch.minimum(visited.abs(), bound)
        score = magnitudes + 2 * choosing * noise[:, 0] - tau
        accepted, complete = accepted_places(score, choosing * noise[:, 1], counts)
        released = torch.clamp(visited + releasing * noise[:, 2], -bound, bound)
        zeroed = complete if self.shared.on_exhaust == "leave" else torch.ones_like(complete)
        sent = torch.where(accepted, released, visited.masked_fill(zeroed, 0))
        return torch.empty_like(entries).scatter_(-1, order, sent).view(grad.shape)

    def mechanism(self) -> Mechanism:
        """Return the bound: at it, the sign of a released entry is random if the noise is far larger.

        The noise grows with the number of entries that are released; that of a single one counts here.
        """
        drowned = [p.bound if 2 * p.sensitivity > RELEASING * p.epsilon * p.bound else math.nan for p in self.members]
        coin = torch.tensor(drowned, dtype=torch.float64)
        return Mechanism(coin=coin if self.stacked else coin[0])

    def _scales(self, counts: list[int], share: float, grad: Tensor) -> Tensor:
        """Return the members' noise scales 2 c S / (share * epsilon), ``(T, 1)``."""
        given = zip(counts, self.members, strict=True)
        scales = [2 * count * p.sensitivity / (share * p.epsilon) for count, p in given]
        return torch.tensor(scales, dtype=grad.dtype, device=grad.device).unsqueeze(-1)

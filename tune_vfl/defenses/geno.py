"""Geno: drop gradient rows of unusual norm, and all gradients to a party whose embeddings drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.by_id import RowTable
from tune_vfl.defenses.parts.robust import Window
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict

WARM_UP = 10
"""A party's drift is recorded for this many steps before anything is held back; fewer give no useful deviation."""


class GenoParams(Strict):
    """Parameters of :class:`Geno`."""

    threshold: Literal["auto"] | Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        "auto",
        description="largest norm that is sent; auto: 3 robust deviations above the median of the last 100 steps",
    )
    scope: Literal["rows", "party"] = Field(
        "rows", description="what is held back: single rows, or a party's whole batch by the drift of its embeddings"
    )


@defense("geno")
class Geno(Defense[GenoParams]):
    """Sends zeros in place of rows whose norm exceeds a threshold, or of all rows to a party that drifts.

    ``scope="rows"`` looks at the norm of each row of the outgoing gradient. ``scope="party"`` looks at how far the
    embeddings of a party moved since the epoch before, ``|e - e_before| / |e_before|`` over the batch: a party that
    amplifies its updates does so after the gradient has left, and shows it there only. ``threshold="auto"`` is, per
    party, the median of the last 100 steps plus 3 * 1.4826 median absolute deviations, found anew at every tenth step
    (at every step of the first 19).

    The paper filters gradients "before aggregation", which split learning does not have, and gives no threshold: both
    readings are this project's. Where the gradients of the classes differ in norm, which rows are held back gives some
    labels away. Source: LADSG, its module Geno.
    """

    summary = "rows of outstanding norm are not sent, or nothing is to a party that drifts"
    reference = (
        "Yan et al. 2025, LADSG: Label-Anonymized Distillation and Similar Gradient Substitution for Label Privacy "
        "in Vertical Federated Learning"
    )
    paper_attacks = ("pmc", "active", "direct")
    Params = GenoParams
    capabilities = DefenseCapabilities(stackable=True, scale_sensitive=True)
    weakest = {"threshold": 1e30}  # noqa: RUF012 - read only, as its declaration in the base says

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: remember where the row with each id is."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        self._table = RowTable(ids)

    def begin(self) -> None:
        """H0: forget earlier steps."""
        self._before: dict[int, Tensor] = {}
        self._windows: dict[int, Window] = {}
        self._held_back = torch.zeros(len(self.members), device=self._device)
        self._seen = 0

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with dropped rows set to zero; same shape and dtype.

        Raises:
            UsageError: with ``scope="party"`` in a loop that offers no context.
        """
        by_row = self.shared.scope == "rows"
        # One number per row, or one for the whole batch: (T, m).
        sizes = torch.linalg.vector_norm(grad, dim=-1) if by_row else self._drift(context, party)
        if sizes is None:
            return grad
        sizes = sizes.reshape(len(self.members), -1)
        out = sizes > self._threshold(sizes, party, warm_up=0 if by_row else WARM_UP).unsqueeze(-1)
        self._held_back += out.sum(-1)
        self._seen += out.shape[-1]
        return grad.masked_fill(out.view(*grad.shape[:-2], -1, 1), 0)

    def _threshold(self, sizes: Tensor, party: int, *, warm_up: int) -> Tensor:
        fixed = [p.threshold for p in self.members if p.threshold != "auto"]
        if fixed:
            return torch.tensor(fixed, dtype=sizes.dtype, device=sizes.device)
        window = self._windows.setdefault(party, Window())
        threshold = window.threshold(sizes)
        return threshold if len(window) > warm_up else torch.full_like(threshold, torch.inf)

    def _drift(self, context: Context | None, party: int) -> Tensor | None:
        """Return ``(*trials, 1)``: how far the batch's embeddings moved since the epoch before; None in the first."""
        if context is None:
            raise UsageError("geno: scope party reads embeddings from the context of the step, got none; pass context")
        now = context.embeddings[party]
        if party not in self._before:
            self._before[party] = now.new_zeros(*now.shape[:-2], self._table.count, now.shape[-1])
        places = self._table.positions(context.ids).unsqueeze(-1).expand_as(now)
        before = self._before[party].gather(-2, places)
        self._before[party].scatter_(-2, places, now)
        if context.epoch == 0:
            return None
        length: Tensor = before.flatten(-2).norm(dim=-1, keepdim=True)
        moved: Tensor = (now - before).flatten(-2).norm(dim=-1, keepdim=True)
        return moved / length.clamp_min(1e-12)

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``filtered``: the share of dropped rows, or steps."""
        return {"filtered": (self._held_back / self._seen).tolist()} if self._seen else {}

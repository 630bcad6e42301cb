"""Residual reconstruction: sums over batches are linear in the labels, and rows return in other batches."""

from __future__ import annotations

import torch
from pydantic import Field

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.own_columns import by_columns
from tune_vfl.attacks.parts.shared_leaves import answered, believed, on_one_scale, taught
from tune_vfl.attacks.parts.summed_residuals import Told, labels_of
from tune_vfl.protocol.sums import BatchSums
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import SUMS, Strict

_HEED = 0.25
"""Share of what a few labels say by own columns in the belief before anything was told: they claim too much."""
_KNOWN = 1e-6


class ResidualSumsParams(Strict):
    """Parameters of :class:`ResidualSums`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")


@attack("residual_sums")
class ResidualSums(Attack[ResidualSumsParams]):
    """Solves for the labels of all rows together from what was told of all batches.

    A batch tells one number a column. Rows return in other batches in every epoch, so that after as many visits as a
    batch has rows a column there are as many equations as labels. Own columns and weights give the party's part of each
    row's logit, and a least-squares fit the other parties' along the directions in which weights moved; known labels
    stay what they are. Where a defense clips sums, their directions are left, and their sizes are solved for as well;
    whether one does is read off the sizes, or, where noise hides the bound, off sums that take no part. Scores of known
    rows are not counted. Where nothing was told they are those by own columns.
    ``sums_own`` adds what own columns say once more, which helps where noise hides most of the sums.
    """

    summary = "labels from the sums over all batches of all epochs, solved for together"
    reference = (
        "Tan et al. 2022, Residue-based Label Protection Mechanisms in Vertical Logistic Regression (the attack)"
    )
    Params = ResidualSumsParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(
        sees=frozenset({"sums", "features", "auxiliary", "class_prior"}),
        parties="joined",
        federations=SUMS,
        stackable=False,
    )

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return both variants: scores ``(N, K)``, oriented."""
        told: BatchSums = view.granted("sums")
        known, shares, classes = view.auxiliary, view.class_prior, told.values.shape[-2]
        x = view.features.train.flatten(1)
        own = by_columns(x, known, view.num_classes)
        by_own = believed(own, shares)
        belief = shares + _HEED * (by_own - shares)
        variance = belief * (1 - belief)
        belief, variance = taught(belief, known), variance.index_fill(0, known.ids, _KNOWN)
        if told.order.shape[0]:
            of_logits = belief[:, -classes:], variance[:, -classes:]
            found = labels_of(Told.of(told, x), *of_logits, view.streams["checked"])
            belief = torch.cat([1 - found, found], -1) if classes == 1 else found  # one of two is the positive one's
        both = on_one_scale(belief) + on_one_scale(own)
        return {"sums": answered(belief, known), "sums_own": answered(both, known)}

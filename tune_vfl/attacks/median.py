"""Median attack: the nearer class median, or the half of its batch that a row falls into."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.centers import median, nearer_positive
from tune_vfl.attacks.parts.moments import MomentAttack, MomentParams, plain_variant
from tune_vfl.protocol.view import Answer, Recording, View


class MedianParams(MomentParams):
    """Parameters of :class:`Median`."""

    rule: Literal["class_median", "pooled", "both", "sign"] = Field(
        "class_median",
        description="nearest class median (GAFM, eq. 9; needs true labels), the upper half of each batch (its released "
        "code; no labels), or both as two variants; sign: above 0 (its released code for three parties; no labels)",
    )


@attack("median")
class Median(MomentAttack[MedianParams]):
    """Three rules that share a name in the literature.

    ``class_median`` predicts 1 where a row is at least as near to the positive class's coordinate-wise median, taken
    over the recorded epoch with true labels: an upper bound. ``pooled`` predicts 1 where the sum of a row's gradient is
    above the median of its batch; it uses no label, is not oriented, and cannot exceed AUC 1 - FPR/2 with
    FPR = (1/2 - p)/(1 - p) for a positive share p below one half. ``sign`` predicts 1 where that sum is above 0, and
    finds every label where the gradients of the classes have opposite signs.
    """

    summary = "nearest class median of the cut gradients, the upper half of each batch, or the sign"
    reference = (
        "Han et al. 2023, GAN-based Vertical Federated Learning for Label Protection (eq. 9 and its released code)"
    )
    Params = MedianParams
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"gradients", "class_oracle"}), oracle=True)
    quick = {"rule": "both", "average": 2}  # noqa: RUF012 - a constant

    def is_upper_bound(self, variant: str) -> bool:
        """Only the rule with true class medians is."""
        return plain_variant(variant) == "class_median"

    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Return a variant per rule: scores ``(*trials, M)``, 0.0 or 1.0."""
        rule = self.params.rule
        answers = {}
        if rule in ("class_median", "both"):
            centers = view.class_oracle.of(seen.gradients, seen.ids, "median")
            scores, counted = nearer_positive(seen.gradients, centers)
            answers["class_median"] = Answer(scores, seen.ids, oriented=True, counted=counted, folds=centers.folds)
        if rule in ("pooled", "both"):
            answers["pooled"] = _pooled(seen)
        if rule == "sign":
            answers["sign"] = Answer((seen.gradients.sum(-1) > 0).to(seen.gradients.dtype), seen.ids)
        return answers


def _pooled(seen: Recording) -> Answer:
    sums = seen.gradients.sum(-1)
    parts = [sums[..., start:stop] for start, stop in seen.batches]
    scores = torch.cat([(part > median(part)).to(sums.dtype) for part in parts], dim=-1)
    return Answer(scores=scores, ids=seen.ids)

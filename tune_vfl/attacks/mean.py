"""Mean attack: the nearer of the two class means of the cut gradients."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.centers import nearer_positive
from tune_vfl.attacks.parts.moments import MomentAttack, MomentParams
from tune_vfl.protocol.view import Answer, Recording, View


class MeanParams(MomentParams):
    """Parameters of :class:`Mean`."""

    space: Literal["vector", "sum"] = Field(
        "vector", description="compare whole gradients (GAFM, eq. 8), or the sum of their entries (its released code)"
    )
    centers: Literal["epoch", "batch"] = Field(
        "epoch",
        description="class means over the recorded epoch, or of each batch as in GAFM's released code; in a batch with "
        "a single positive row the mean is that row, so `batch` can leak a label by itself",
    )
    held_out: bool | None = Field(
        None,
        description="compare a row with centers from which its tenth of the rows is left out, as none does; false: "
        "with centers that it moved itself, as published, which finds labels in pure noise",
    )


@attack("mean")
class Mean(MomentAttack[MeanParams]):
    """Predicts 1 where a row's gradient is at least as near to the positive class's mean as to the negative one's.

    The means are computed with true labels, which makes the result an upper bound. Scores are hard, so their AUC is the
    balanced accuracy. With ``space="sum"`` ties go to the negative class, as in the released code. Rows whose centers
    lack a class are not counted.
    """

    summary = "nearest class mean of the cut gradients (oracle means: an upper bound)"
    reference = "Han et al. 2023, GAN-based Vertical Federated Learning for Label Protection (eq. 8)"
    Params = MeanParams
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"gradients", "class_oracle"}), oracle=True)
    quick = {"average": 2}  # noqa: RUF012 - a constant

    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Return the variant ``mean``: scores ``(*trials, M)``, 0.0 or 1.0, oriented."""
        oracle, published = view.class_oracle, self.params.held_out is False
        summed = self.params.space == "sum"
        values = seen.gradients.sum(-1, keepdim=True) if summed else seen.gradients
        blocks = seen.batches if self.params.centers == "batch" else ((0, values.shape[-2]),)
        parts = []
        for block, (start, stop) in enumerate(blocks):
            rows = values[..., start:stop, :]
            ids = seen.ids[..., start:stop]
            centers = oracle.means(rows, ids) if published else oracle.of(rows, ids, "mean")
            apart = centers.folds + block * centers.without.shape[-3]
            parts.append((*nearer_positive(rows, centers, strict=summed), apart))
        scores, counted, folds = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
        # Published centers are one rule for all rows of a batch, and have one AUC.
        apart_by = None if published else folds
        return {"mean": Answer(scores, seen.ids, oriented=True, counted=counted, folds=apart_by)}

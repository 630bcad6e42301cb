"""Norm scoring: rows of one class tend to receive larger gradients."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.moments import MomentAttack, MomentParams
from tune_vfl.protocol.view import Answer, Recording, View


class NormParams(MomentParams):
    """Parameters of :class:`Norm`."""

    d1: Literal["abs", "signed"] = Field(
        "abs", description="score of a cut gradient of width 1: its absolute value, or the number with its sign"
    )


@attack("norm")
class Norm(MomentAttack[NormParams]):
    """Scores each row by the length of the gradient received for it, times the rows of its batch.

    Gradients are those of a batch's mean loss: without the factor the rows of a smaller last batch would all rank high,
    whatever their class. The attacker does not know which class has the longer gradients, so the score is not oriented.
    """

    summary = "score rows by the norm of their cut gradient"
    reference = "Li et al. 2022, Label Leakage and Protection in Two-party Split Learning"
    Params = NormParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"gradients"}))
    quick = {"average": 2}  # noqa: RUF012 - a constant

    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Return the variant ``norm``: scores ``(*trials, M)``."""
        signed = self.params.d1 == "signed" and seen.gradients.shape[-1] == 1
        scores = seen.gradients.squeeze(-1) if signed else torch.linalg.vector_norm(seen.gradients, dim=-1)
        return {"norm": Answer(scores=scores * seen.batch_rows, ids=seen.ids)}

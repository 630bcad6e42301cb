"""SGSub: random numbers that are near the cut gradient, and in its order, leave in its place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.substitution import Rule, substitute
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict


class SgsubParams(Strict):
    """Parameters of :class:`Sgsub`."""

    tau: float = Field(1.0, ge=0, allow_inf_nan=False, description="largest distance at which a candidate is sent")
    w_cos: float = Field(0.5, ge=0, allow_inf_nan=False, description="weight of the cosine distance, 1 - cos")
    w_mahalanobis: float = Field(
        0.5, ge=0, allow_inf_nan=False, description="weight of the rows' mean Mahalanobis distance over sqrt(d)"
    )
    max_tries: int = Field(
        2, ge=1, description="candidates a step and party; where none is within tau, the nearest is sent"
    )


@defense("sgsub")
class Sgsub(Defense):
    """Sends normal numbers with the gradient's mean and deviation, clamped to its range, in the order of its entries.

    The first candidate whose distance w_cos (1 - cos) + w_mahalanobis D / sqrt(d) is at most tau is sent, else the
    nearest. D is the mean over rows of the Mahalanobis distance, under the covariance of the batch's rows with a ridge
    of a thousandth of its mean variance. The paper weighs the cosine similarity, which would prefer what is unlike, and
    judges candidates before they are put in order, when the cosine of any of them is near 0; it gives no values.

    Order survives: the smallest entry of a row mostly still gives its class away. Source: LADSG, equation 6 and
    algorithm 1.
    """

    summary = "random numbers near the cut gradient, in its order, in its place"
    reference = "LADSG: Label-Anonymized Distillation and Similar Gradient Substitution for Label Privacy in VFL"
    Params = SgsubParams
    capabilities = DefenseCapabilities(random=("gradients",))

    def begin(self) -> None:
        """H0: count steps from 0."""
        self._rule = self.rule()
        self._calls: dict[int, int] = {}
        self._accepted = torch.zeros(len(self.members), device=self._device)

    def rule(self) -> Rule:
        """Return how candidates are judged."""
        weighs = any(self.values("w_mahalanobis"))
        return Rule(
            tau=self.column(self.values("tau")),
            cosine=self.column(self.values("w_cos")),
            mahalanobis=self.column(self.values("w_mahalanobis")) if weighs else None,
            max_tries=[int(n) for n in self.values("max_tries")],
        )

    def column(self, values: Sequence[float]) -> Tensor:
        """Return a number per member as a tensor ``(T,)``."""
        return torch.tensor(values, dtype=torch.float32, device=self._device)

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return random numbers in the order of ``grad``'s entries; same shape and dtype."""
        call = self._calls.get(party, 0)
        self._calls[party] = call + 1
        # A stream for each call: how many candidates one member needs must not move what another one draws next.
        sent, accepted = substitute(grad, self.streams.fresh(f"cut/{party}/{call}"), self._rule)
        self._accepted += accepted
        return sent

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``accepted``: the share of steps and parties in which a candidate was within tau."""
        calls = sum(self._calls.values())
        return {"accepted": (self._accepted / calls).tolist()} if calls else {}

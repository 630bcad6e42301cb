"""SGSub: send random numbers near the cut gradient, and in its order, in its place."""

from __future__ import annotations

from pydantic import Field

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.parts.substituting import Substituting
from tune_vfl.defenses.parts.substitution import Rule
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
class Sgsub(Substituting[SgsubParams]):
    """Sends normal numbers with the gradient's mean and deviation, clamped to its range, in the order of its entries.

    The first candidate whose distance w_cos (1 - cos) + w_mahalanobis D / sqrt(d) is at most tau is sent, else the
    nearest. D is the mean over rows of the Mahalanobis distance, under the covariance of the batch's rows with a ridge
    of a thousandth of its mean variance. The paper adds the cosine similarity in place of 1 - cos, which would prefer
    candidates unlike the gradient, and judges them before they are put in order, when every cosine is near 0. It gives
    no values for the parameters.

    Order survives: the smallest entry of a row mostly still gives its class away. Source: LADSG, equation 6 and
    algorithm 1.
    """

    summary = "random numbers near the cut gradient, in its order, in its place"
    reference = (
        "Yan et al. 2025, LADSG: Label-Anonymized Distillation and Similar Gradient Substitution for Label Privacy "
        "in Vertical Federated Learning"
    )
    paper_attacks = ("pmc", "active", "direct")
    Params = SgsubParams

    def rule(self) -> Rule:
        """Return how candidates are judged."""
        weights = self.values(lambda p: p.w_mahalanobis)
        return Rule(
            tau=self.per_member(self.values(lambda p: p.tau)),
            cosine=self.per_member(self.values(lambda p: p.w_cos)),
            mahalanobis=self.per_member(weights) if any(weights) else None,
            max_tries=[p.max_tries for p in self.members],
        )

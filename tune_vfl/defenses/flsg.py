"""FLSG: send random numbers at a small cosine distance of the cut gradient in its place."""

from __future__ import annotations

from pydantic import Field

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.parts.substituting import Substituting
from tune_vfl.defenses.parts.substitution import Rule
from tune_vfl.spec import Strict

TRIES = 2


class FlsgParams(Strict):
    """Parameters of :class:`Flsg`."""

    tau: float = Field(
        0.35, ge=0, allow_inf_nan=False, description="largest cosine distance, 1 - cos, at which a candidate is sent"
    )


@defense("flsg")
class Flsg(Substituting[FlsgParams]):
    """Sends a normal vector in the gradient's order at a cosine distance of at most tau, else the nearer of 2.

    SGSub adds the Mahalanobis distance to this rule. Only the paper's abstract was at hand: a Gaussian vector of the
    gradient's size within a threshold on the cosine distance; the order is taken from SGSub, as an independent vector
    is never near. Source: Fan et al. 2024.
    """

    summary = "random numbers at a small cosine distance of the cut gradient, in its place"
    reference = (
        "Fan et al. 2024, FLSG: A Novel Defense Strategy Against Inference Attacks in Vertical Federated Learning"
    )
    Params = FlsgParams

    def rule(self) -> Rule:
        """Return how candidates are judged: by the cosine alone."""
        count = len(self.members)
        return Rule(
            tau=self.per_member(self.values(lambda p: p.tau)),
            cosine=self.per_member([1.0] * count),
            mahalanobis=None,
            max_tries=[TRIES] * count,
        )

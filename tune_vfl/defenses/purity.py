"""Defense of boosted trees: nodes whose rows are nearly all of one class are kept at the label party."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.spec import TREES, Strict


class PurityParams(Strict):
    """Parameters of :class:`Purity`."""

    bound: float = Field(
        0.9, ge=0, le=1, description="share of the most frequent class above which a node is kept at home"
    )


@defense("purity")
class Purity(Defense[PurityParams]):
    """Keeps nodes at the label party whose largest share of a class is above a bound.

    The label party goes on splitting them by its own columns alone, or leaves them as they are where it has none. What
    is left out shows all the same where the other side of a split is told, or where the party made the split itself:
    it then knows the rows of the node, and that they are nearly all of one class. At a bound of 1 every node is told,
    at 0 none.
    """

    summary = "nodes purer than a bound stay at the label party"
    reference = (
        "Kang et al. 2024, Hyperparameter Optimization for SecureBoost via Constrained Multi-Objective Federated "
        "Learning (purity threshold)"
    )
    Params = PurityParams
    paper_attacks = ("leaf_cluster",)
    capabilities = DefenseCapabilities(protects=("nodes",), federations=TREES, modalities=frozenset({"table"}))
    weakest = {"bound": 1.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def kept_at_home(self, shares: Tensor, *, round_: int) -> Tensor:
        """Keep nodes whose largest class share is above the bound."""
        return shares.amax(-1) > self.shared.bound

"""Defense of boosted trees: the label party grows the first trees alone, on its own columns."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.spec import TREES, Strict
from tune_vfl.spec.cell import Mode


class LocalTreesParams(Strict):
    """Parameters of :class:`LocalTrees`."""

    first: int = Field(1, ge=0, le=10_000, description="rounds, from the first on, that the label party grows alone")


@defense("local_trees")
class LocalTrees(Defense[LocalTreesParams]):
    """Keeps the first trees at the label party.

    Their splits are cleanest: later trees are grown on what earlier ones have not explained. With as many local trees
    as there are, nothing of labels leaves the label party, and nothing of others' columns helps it. SecureBoost's
    paper keeps the first tree (section 5); Kang et al. search the number.
    """

    summary = "the label party grows the first trees alone"
    reference = (
        "Kang et al. 2024, Hyperparameter Optimization for SecureBoost via Constrained Multi-Objective Federated "
        "Learning (local trees)"
    )
    Params = LocalTreesParams
    paper_attacks = ("leaf_cluster",)
    capabilities = DefenseCapabilities(
        protects=("nodes",), federations=TREES, modalities=frozenset({"table"}), modes=frozenset({"split"})
    )
    weakest = {"first": 0}  # noqa: RUF012 - read only, as its declaration in the base says

    @classmethod
    def problems(cls, params: LocalTreesParams, *, num_classes: int, mode: Mode) -> list[str]:
        """Return why a label party without columns cannot grow trees."""
        if mode == "label_only" and params.first:
            return ["local_trees: the label party has no columns to grow trees on; give dataset.split"]
        return []

    def kept_at_home(self, shares: Tensor, *, round_: int) -> Tensor:
        """Keep all nodes of the first rounds."""
        return torch.full((len(shares),), round_ < self.shared.first)

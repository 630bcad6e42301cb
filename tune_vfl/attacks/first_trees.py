"""First trees alone: the splits of a first tree are cleanest, as nothing has been learned yet."""

from __future__ import annotations

from pydantic import Field, field_validator

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.shared_leaves import answered, believed, by_beliefs, by_known, said_of_known, taught
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import TREES, Strict


class FirstTreesParams(Strict):
    """Parameters of :class:`FirstTrees`."""

    trees: tuple[int, ...] = Field(
        (1, 2, 5, 10), min_length=1, description="how many first trees are read, of those that a party knows of"
    )
    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")

    @field_validator("trees")
    @classmethod
    def _counts(cls, trees: tuple[int, ...]) -> tuple[int, ...]:
        if min(trees) < 1 or len(set(trees)) < len(trees):
            raise ValueError(f"expected numbers of trees, each at most once and at least 1, got {trees}")
        return trees


@attack("first_trees")
class FirstTrees(Attack[FirstTreesParams]):
    """Completes the leaves of the first trees alone, of which later ones correct what is left.

    Later trees are grown on residuals, which differ less by class than labels do, so that all trees together may say
    less than the first few: where a class is rare, for instance. Variants ``first_1``, ``first_2`` and so on; the
    attacker takes the one that believes most in the labels of its known rows, each by the others.
    """

    summary = "complete the leaves of the first trees, whose splits are cleanest, with a few labels"
    reference = "Cheng et al. 2021, SecureBoost (which leaves the first tree to the label party for this reason)"
    Params = FirstTreesParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(
        sees=frozenset({"partitions", "auxiliary", "class_prior"}), parties="joined", federations=TREES
    )

    @property
    def draws(self) -> int:
        """Two draws of known rows, as many as the floor by own columns has."""
        return 2

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return a variant a number of trees: scores ``(*trials, N, K)``, oriented."""
        told: Partitions = view.granted("partitions")
        known = view.auxiliary
        answers: dict[str, Answer] = {}
        for count in self.params.trees:
            groups = told.first(count)
            said = by_known(groups, known, view.num_classes)
            more = by_beliefs(groups, taught(believed(said, view.class_prior), known))
            scores = believed(more, view.class_prior).log()
            answers[f"first_{count}"] = answered(scores, known, said_of_known(said, known))
        return answers

"""Tree completion: rows that share leaves share labels, and a few known labels say which."""

from __future__ import annotations

from pydantic import Field

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.own_columns import by_columns
from tune_vfl.attacks.parts.shared_leaves import (
    answered,
    believed,
    by_beliefs,
    by_known,
    on_one_scale,
    said_of_known,
    taught,
)
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import TREES, Strict


class TreeCompletionParams(Strict):
    """Parameters of :class:`TreeCompletion`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")


@attack("tree_completion")
class TreeCompletion(Attack[TreeCompletionParams]):
    """Says each row's class by the known rows in its leaves, and once more by what it then believes of all rows there.

    ``leaves`` reads the partitions alone. ``leaves_own`` starts from what the leaves say and what a kernel regression
    on the party's own columns says, which helps where few nodes were told. Beliefs have the classes' shares on the
    whole, and every row is scored by the other rows; rows whose label is known are not counted. The attacker takes the
    variant that believes most in the labels of its known rows, each by the others.
    """

    summary = "complete the leaves that rows share, and own columns, with a few labels; self-trained once"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning (carried over to trees)"
    Params = TreeCompletionParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(
        sees=frozenset({"partitions", "features", "auxiliary", "class_prior"}), parties="joined", federations=TREES
    )

    @property
    def draws(self) -> int:
        """Two draws of known rows, as many as the floor by own columns has."""
        return 2

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return both variants: scores ``(*trials, N, K)``, oriented."""
        told: Partitions = view.granted("partitions")
        known, groups = view.auxiliary, told.groups
        leaves = by_known(groups, known, view.num_classes)
        own = by_columns(view.features.train.flatten(len(view.lead) + 1), known, view.num_classes)
        both = on_one_scale(leaves) + on_one_scale(own)
        shares = view.class_prior
        more, more_of_both = (by_beliefs(groups, taught(believed(x, shares), known)) for x in (leaves, both))
        of_few = 1 - told.parting.float().mean(-1)[..., None, None]  # what was not told says nothing against columns
        found = {"leaves": (more, leaves), "leaves_own": (on_one_scale(more_of_both) + of_few * both, both)}
        return {
            variant: answered(believed(scores, shares).log(), known, said_of_known(before, known))
            for variant, (scores, before) in found.items()
        }

"""DCAE: coded labels, and gradients rounded to a few levels."""

from __future__ import annotations

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.cae import Cae, CaeParams
from tune_vfl.defenses.discrete_sgd import DiscreteSgd, DiscreteSgdParams
from tune_vfl.defenses.parts.pipeline import Pipeline, combined


class DcaeParams(DiscreteSgdParams, CaeParams):
    """Parameters of :class:`Dcae`: those of its two stages, side by side."""


@defense("dcae")
class Dcae(Pipeline[DcaeParams]):
    """The codes of ``cae`` as training labels, then the cut gradient rounded as ``discrete_sgd`` does, to 12 parts.

    Rounding hides small differences within a code: the largest entries of a row may tie. Which class a code ranks first
    still shows, so that an attacker with labeled rows undoes it as it undoes ``cae``. Source: Zou et al. 2022.
    """

    summary = "cae's codes in place of the labels, and the cut gradient rounded to a few levels"
    reference = (
        "Zou et al. 2022, Defending Batch-Level Label Inference and Replacement Attacks in Vertical Federated Learning"
    )
    paper_attacks = ("bli",)
    Params = DcaeParams
    stages = (Cae, DiscreteSgd)
    capabilities = combined(stages)
    quick = Cae.quick

"""LADSG: soft labels, substituted gradients and a filter of norms, together."""

from __future__ import annotations

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.geno import Geno, GenoParams
from tune_vfl.defenses.ladistill import Ladistill, LadistillParams
from tune_vfl.defenses.parts.pipeline import Pipeline, combined
from tune_vfl.defenses.sgsub import Sgsub, SgsubParams


class LadsgParams(GenoParams, SgsubParams, LadistillParams):
    """Parameters of :class:`Ladsg`: those of its three stages, side by side."""


@defense("ladsg")
class Ladsg(Pipeline[LadsgParams]):
    """LADistill's labels, SGSub's substitutes for the gradients, then Geno's filter on the norms of those.

    The tables of the paper vary k and epsilon alone. Source: LADSG, algorithm 1.
    """

    summary = "ladistill, sgsub and geno, one after the other"
    reference = (
        "Yan et al. 2025, LADSG: Label-Anonymized Distillation and Similar Gradient Substitution for Label Privacy "
        "in Vertical Federated Learning"
    )
    paper_attacks = ("pmc", "active", "direct")
    Params = LadsgParams
    stages = (Ladistill, Sgsub, Geno)
    capabilities = combined(stages)

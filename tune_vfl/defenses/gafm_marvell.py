"""GAFM with Marvell's noise on the gradients that it sends."""

from __future__ import annotations

from tune_vfl.defenses.base import defense
from tune_vfl.defenses.gafm import Gafm, GafmParams
from tune_vfl.defenses.marvell import Marvell, MarvellParams
from tune_vfl.defenses.parts.pipeline import Pipeline, combined


class GafmMarvellParams(MarvellParams, GafmParams):
    """Parameters of :class:`GafmMarvell`: those of its two stages, side by side."""


@defense("gafm_marvell")
class GafmMarvell(Pipeline[GafmMarvellParams]):
    """The mixed gradient of ``gafm``, with the noise that makes its two classes most alike (``marvell``).

    Marvell's ``budget`` is in units of the distance that GAFM leaves between the classes, so that it adds noise of the
    same relative strength to gradients that are already mixed. Source: Han et al. 2023, table 11 (G-M).
    """

    summary = "gafm's mixed gradient, then marvell's noise on it"
    reference = (
        "Han et al. 2023, GAN-based Vertical Federated Learning for Label Protection (appendix, G-M); Li et al. "
        "2022, Label Leakage and Protection in Two-party Split Learning"
    )
    paper_attacks = ("norm", "mean", "median")
    Params = GafmMarvellParams
    stages = (Gafm, Marvell)
    capabilities = combined(stages)

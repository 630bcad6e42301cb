"""EM over visits that trusts the gradients as far as the known labels bear them out."""

from __future__ import annotations

from typing import ClassVar

from tune_vfl.attacks.base import attack
from tune_vfl.attacks.gradient_em import GradientEm


@attack("gradient_em_known")
class GradientEmKnown(GradientEm):
    """Finds labels as ``gradient_em`` does, but trusts the gradients as far as the known labels bear them out.

    The power of the evidence in every round, and the candidate in the end, are those that say the known rows best. A
    further candidate are the ``sums`` of what all epochs say: with many classes a discriminant of the single epochs has
    more weights than soft labels and noise settle. Under noise that often finds more than agreement with the own
    columns does, and now and then less: the known rows take part in the start, and are said too well.
    """

    summary = "gradient_em, with the known labels to decide how far gradients are trusted: under noise"
    choice = "gradient_em_known"
    by_labels: ClassVar[bool] = True

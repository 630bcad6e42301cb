"""No defense: the baseline of all others."""

from __future__ import annotations

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.spec import BOTH, SUMS, TREES


@defense("none")
class NoDefense(Defense):
    """Identity on every hook."""

    summary = "no defense"
    reference = "-"
    capabilities = DefenseCapabilities(stackable=True, federations=BOTH | SUMS | TREES)

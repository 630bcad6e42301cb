"""No defense: what every other one is compared with."""

from __future__ import annotations

from tune_vfl.defenses.base import Defense, defense


@defense("none")
class NoDefense(Defense):
    """Identity on every hook."""

    summary = "no defense"
    reference = "-"

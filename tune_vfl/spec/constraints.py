"""``constraints`` of a spec: limits that an answer must satisfy: ``{utility_loss: 0.01, leakage: 0.2}``."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import AfterValidator

from tune_vfl.errors import did_you_mean

AT_LEAST = ("utility",)
"""Constraints that are lower limits; all others are upper limits."""

OF_ATTACK = re.compile(r"attacks\.(?P<attack>\w+)\.(?P<what>advantage|success)")

NAMES = ("utility", "utility_loss", "leakage", "cost")
_EXPECTED = f"expected {', '.join(NAMES)}, attacks.NAME.advantage or attacks.NAME.success"


def _known(constraints: dict[str, float]) -> dict[str, float]:
    for name, bound in constraints.items():
        if name not in NAMES and not OF_ATTACK.fullmatch(name):
            raise ValueError(f"{name!r} cannot be constrained; {_EXPECTED}.{did_you_mean(name, NAMES)}")
        if not math.isfinite(bound):
            raise ValueError(f"{name}: expected a finite number, got {bound}")
        _possible(name, bound)
    return constraints


def _possible(name: str, bound: float) -> None:
    """Refuse a bound that every setting keeps, or none, such as 20 where 0.2 is meant."""
    if name == "cost":
        if bound < 0:
            raise ValueError(f"cost: expected 0 or more, the cost over that of the undefended training, got {bound:g}")
        return
    least = 0.0 if name in ("utility", "leakage") or OF_ATTACK.fullmatch(name) else -1.0
    if not least <= bound <= 1:
        percent = f"; is {bound:g}% meant? write {bound / 100:g}" if 1 < bound <= 100 else ""
        raise ValueError(f"{name}: expected a number from {least:g} to 1, got {bound:g}{percent}")


Constraints = Annotated[dict[str, float], AfterValidator(_known)]
"""Bounds by name, absolute: ``utility`` at least; at most ``utility_loss`` against the undefended model, ``leakage``,
``cost`` (CPU of the training over the undefended one's) and one attack's ``advantage`` or ``success``."""

"""``constraints`` of a spec: limits that an answer must satisfy: ``{utility_loss: 0.01, leakage: 0.2}``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
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
    return constraints


_RANGES = {"utility": (0.0, 1.0), "leakage": (0.0, 1.0), "utility_loss": (-1.0, 1.0), "cost": (0.0, math.inf)}


def impossible(constraints: Mapping[str, float]) -> Iterator[str]:
    """Yield which bounds lie outside of what their quantity can be, one sentence each: all settings or none keep them.

    A spec is asked before its first search, not where it is read: a study that was searched stays one.
    """
    for name, bound in constraints.items():
        low, high = _RANGES.get(name, (0.0, 1.0))
        if low <= bound <= high:
            continue
        percent = f"; {bound:g}% is {bound / 100:g}" if high == 1 and 1 < bound <= 100 else ""
        range_ = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of {low:g} or more"
        yield f"constraints.{name}: expected a number {range_}, got {bound:g}{percent}"


Constraints = Annotated[dict[str, float], AfterValidator(_known)]
"""Bounds by name, absolute: ``utility`` at least; at most ``utility_loss`` against the undefended model, ``leakage``,
``cost`` (CPU of the training over the undefended one's) and one attack's ``advantage`` or ``success``."""

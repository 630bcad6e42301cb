"""Constraints of a campaign, tested by one-sided bounds: which settings satisfy them, and which misses them least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.formatting import number, short
from tune_vfl.spec.constraints import AT_LEAST
from tune_vfl.statistics.arrays import Bools, Floats

RUNGS = (0.1, 0.2, 0.5)
"""The leakages by which settings are laid side by side where nobody has said how much may leak."""

DEPLOYABLE = 0.5
"""The leakage that a setting must surely not exceed to be recommended where nobody has said how much may leak."""


def bounds_leakage(constraints: Mapping[str, float]) -> bool:
    """Whether constraints bound the leakage, that of the worst attack.

    A limit of 1 or more, as 20 for 20%, excludes nothing; a limit on one attack says nothing of the others.
    """
    return constraints.get("leakage", 1.0) < 1


def lacking(bounds: UpperBounds, place: int, constraints: Mapping[str, float]) -> Iterator[str]:
    """Yield, in words, the constraints that one setting does not surely satisfy; an unknown value satisfies none."""
    for name, cap in constraints.items():
        value, bound = (float(column[place]) for column in bounds.of(name))
        side = "at least" if name in AT_LEAST else "at most"
        surely = "" if value == bound else f", with {bounds.confidence:.0%} confidence {side} {_written(name, bound)}"
        if np.isnan(bound):
            yield f"{name}: {bounds.unknown(place, name)}"
        elif not bounds.keeps(name, cap)[place]:
            yield f"{name} is {_written(name, value)}{surely}: not {side} {_written(name, cap)}"


def _written(name: str, value: float) -> str:
    return number(value) if name == "cost" else short(value)


def asked_for(constraints: Mapping[str, float]) -> str:
    """Format constraints as ``leakage<=0.2 and utility>=0.9``."""
    return " and ".join(f"{n}{'>=' if n in AT_LEAST else '<='}{number(cap)}" for n, cap in constraints.items())


def nearest(bounds: UpperBounds, constraints: Mapping[str, float], among: Bools) -> int | None:
    """Return the setting that misses the constraints least.

    The criterion is the largest miss: utility and its loss in units of the undefended model's gain over the guess (or
    the label party alone), cost in units of its cap, leakage unscaled. A constraint on an unknown value counts as the
    largest miss.

    Args:
        bounds: of all settings.
        constraints: caps by name.
        among: ``(N,)`` the eligible settings.

    Returns:
        Its index, the more useful one among equals; None where none is eligible.
    """
    places = np.flatnonzero(among)
    if not len(places):
        return None
    misses = np.stack([_missed(bounds, name, cap) for name, cap in constraints.items()])[:, places]
    unknown, largest = np.isinf(misses).sum(0), np.where(np.isinf(misses), 0.0, misses).max(0)
    utility, leakage = bounds.settings.known[places].T
    # Rounding must not decide between equal misses.
    order = np.lexsort((places, leakage, -utility, np.round(largest, 12), unknown))
    return int(places[order[0]])


def _missed(bounds: UpperBounds, name: str, cap: float) -> Floats:
    bound, scale = bounds.of(name).bound, bounds.settings.scale
    gain = 1.0 if scale is None else scale.utility_high - scale.utility_low
    unit = abs(cap) if name == "cost" else gain if name.startswith("utility") else 1.0
    over = (cap - bound if name in AT_LEAST else bound - cap) / (unit if unit > 0 else 1.0)
    return np.where(np.isnan(over), np.inf, np.maximum(over, 0.0))


def nearly(bounds: UpperBounds, constraints: Mapping[str, float]) -> Bools:
    """Return the settings whose estimates satisfy all constraints, but not their bounds: more seeds may decide."""
    by_value = np.ones(len(bounds.settings.rows), dtype=bool)
    for name, cap in constraints.items():
        value = bounds.of(name).value
        with np.errstate(invalid="ignore"):
            by_value &= value >= cap if name in AT_LEAST else value <= cap
    return np.asarray(by_value & ~bounds.keeping(constraints))

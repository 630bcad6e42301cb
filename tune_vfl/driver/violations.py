"""Violations of a study's constraints by a trial, for samplers with constraints.

The decision uses bounds with a confidence (:mod:`tune_vfl.analysis.constraints`); a sampler uses the measured numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from tune_vfl.outcome import Outcome
from tune_vfl.spec.constraints import AT_LEAST, OF_ATTACK


def violations(outcome: Outcome, undefended: Outcome | None, constraints: Mapping[str, float]) -> list[float]:
    """Return a number for each constraint, at most 0 where it is kept.

    A constraint on a number that was not measured counts as kept, and so does one on the cost, which is the study's.

    Args:
        outcome: of a trial that ended ok.
        undefended: of the undefended model.
        constraints: see :data:`tune_vfl.spec.constraints.Constraints`.
    """
    found = []
    for name, bound in constraints.items():
        value = _value(name, outcome, undefended)
        found.append(0.0 if value is None else bound - value if name in AT_LEAST else value - bound)
    return found


def _value(name: str, outcome: Outcome, undefended: Outcome | None) -> float | None:
    utility, leakage = outcome.objectives
    if name == "utility":
        return utility
    if name == "leakage":
        return leakage
    if name == "utility_loss":
        if undefended is None or undefended.outcome != "ok":
            return None
        return undefended.objectives[0] - utility
    of_attack = OF_ATTACK.fullmatch(name)
    score = outcome.attacks.get(of_attack["attack"]) if of_attack else None
    if score is None or of_attack is None:
        return None
    return score.advantage if of_attack["what"] == "advantage" else score.mean

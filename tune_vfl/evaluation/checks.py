"""Checks that an outcome must pass before its leakage is trusted or a setting is recommended."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import BaseModel, ConfigDict

from tune_vfl.evaluation.certainty import Certainty
from tune_vfl.outcome import Outcome
from tune_vfl.statistics.intervals import WIDEST

NEARLY_DONE = 0.9
"""The share of the steps after which an undefended model is looked at for the first time."""
STILL_LEARNING = 0.005
"""A utility that moves by as much over the last steps was not trained to the end."""
FEWEST_SEEDS = 3
FEWEST_OF_A_CLASS = 20
"""Test rows of the rarest class below which a utility moves by its single rows."""
NOTHING_TO_PROTECT = 0.05
"""An undefended leakage below it leaves nothing to compare defenses by."""


class Check(BaseModel):
    """One condition on which the trust in an outcome depends, with its result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    ok: bool
    says: str


def checks_of_setting(outcome: Outcome, sure: Certainty) -> Iterator[Check]:
    """Yield the checks of a single setting, passed or not."""
    yield from checks_of_sample(outcome)
    wide = f"the leakage is undecided: half of its interval is more than {WIDEST}"
    yield Check(name="decided", ok=not sure.undecided, says=wide if sure.undecided else "the interval says something")
    yield amplification(sure)


def checks_of_sample(outcome: Outcome) -> Iterator[Check]:
    """Yield checks of the numbers of seeds and rows, which all settings of a study share."""
    seeds = len(outcome.utility.values) if outcome.utility else 0
    few = f"{seeds} seeds: intervals need at least {FEWEST_SEEDS} to say much"
    yield Check(name="seeds", ok=seeds >= FEWEST_SEEDS, says=few if seeds < FEWEST_SEEDS else f"{seeds} seeds")
    if (rarest := outcome.rarest_in_test) is not None:
        says = f"{rarest} test rows of the rarest class"
        yield Check(name="rare_class", ok=rarest >= FEWEST_OF_A_CLASS, says=says)


def amplification(sure: Certainty) -> Check:
    """Return whether a floor is so high that an advantage is mostly magnified noise."""
    by = ", ".join(f"{name} by {times:.0f}" for name, times in sure.amplified.items())
    fine = "no floor is so high that advantages magnify noise"
    amplified = f"floors close to 1 magnify deviations of the success: {by}; read the success, not the advantage"
    return Check(name="amplification", ok=not sure.amplified, says=amplified if by else fine)


def checks_of_undefended(outcome: Outcome, sure: Certainty, guess: float) -> Iterator[Check]:
    """Yield checks that the undefended model must pass before any search or evaluation is informative."""
    reached = outcome.objectives[0]
    low = sure.utility_interval[0] if sure.utility_interval else reached
    says = f"the undefended model reaches {reached:.3f}, a guess {guess:.3f}"
    yield Check(name="useful", ok=low > guess, says=says)
    if outcome.utility and len(outcome.utility_before_end) == len(outcome.utility.values):
        late = float(np.mean(outcome.utility.values) - np.mean(outcome.utility_before_end))
        says = f"the undefended utility moved by {late:+.4f} over the last {1 - NEARLY_DONE:.0%} of the steps"
        hint = "" if abs(late) < STILL_LEARNING else "; train longer, or with a smaller learning rate"
        yield Check(name="trained", ok=abs(late) < STILL_LEARNING, says=says + hint)
    leakage = outcome.objectives[1]
    found = sure.leakage_interval[0] if sure.leakage_interval else leakage
    effective = found > 0 and leakage >= NOTHING_TO_PROTECT
    weak = f"the attacks find {leakage:.3f} of leakage in the undefended model"
    says = weak if effective else f"{weak}: too little to tell defenses apart by"
    yield Check(name="effective_attacks", ok=effective, says=says)

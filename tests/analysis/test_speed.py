"""Five thousand trials of twenty studies are decided at once."""

import time

import numpy as np
import pytest

from tests.helpers.campaigns import campaign_of, outcome_of, part_of, steady
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.rankings import rankings

pytestmark = pytest.mark.slow  # benchmarks: a time is asserted, and seconds of a core are taken

STUDIES, DIFFERENT, TRIALS, SECONDS = 20, 4, 250, 2.0
ATTACKS = {"norm": 1.0, "direction": 0.9, "pmc": 0.8, "spectral": 0.7, "mean": 0.6}


def test_a_large_campaign_is_decided_in_two_seconds_of_a_core() -> None:
    rng = np.random.default_rng(5)
    t = rng.uniform(0, 1, (DIFFERENT, TRIALS))
    utility = (0.95 - 0.45 * t**2 - rng.uniform(0, 0.1, t.shape))[..., None] + rng.normal(0, 0.006, (*t.shape, 3))
    outcomes = [
        [
            outcome_of(u, {a: (1 - x) ** 2 * w + rng.normal(0, 0.04, 3) for a, w in ATTACKS.items()})
            for u, x in zip(utility[d], t[d], strict=True)
        ]
        for d in range(DIFFERENT)
    ]
    parts = [part_of(f"d{d}", outcomes[d % DIFFERENT], attacks=list(ATTACKS)) for d in range(STUDIES)]
    campaign = campaign_of(*parts, constraints={"leakage": 0.3, "attacks.pmc.advantage": 0.3})
    decide(joint_of(campaign_of(parts[0])))  # what is imported is not measured
    begun = time.process_time()
    joint = joint_of(campaign)
    decision = decide(joint)
    took = time.process_time() - begun
    assert decision.measured == STUDIES * TRIALS
    assert decision.verdict == "deploy"
    assert len(rankings(joint)) == 3
    assert took < SECONDS


def test_a_front_of_thousands_is_laid_out_in_two_seconds_of_a_core() -> None:
    """Where nearly all settings are on the joint front no table of every pair of them is made."""
    t = np.random.default_rng(6).uniform(0, 1, 5000)
    outcomes = [steady(0.95 - 0.45 * x * x, (1 - x) ** 2) for x in t]
    part = part_of("d0", outcomes)
    begun = time.process_time()
    joint = joint_of(campaign_of(part))
    took = time.process_time() - begun
    assert len(joint.front) > 4500
    assert sum(len(group) for group in joint.together) == len(joint.front)
    assert took < SECONDS

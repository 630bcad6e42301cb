"""Chances on the scale of a compromise, what fresh seeds found, and the nearest setting."""

import math

import pytest

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of
from tune_vfl.analysis.alternatives import chances_over
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.summary import frontier


def test_a_compromise_s_chance_weighs_both_variances_on_the_undefended_scale() -> None:
    found = [
        outcome_of([u + d, u - d, u], {"norm": [x + 3 * d, x, x - 3 * d]})
        for u, x, d in (
            (0.90, 0.30, 0.01),
            (0.89, 0.28, -0.01),
            (0.8, 0.2, 0.012),
            (0.7, 0.1, 0.008),
            (0.6, 0.05, -0.01),
        )
    ]
    describer = Describer(joint_of(campaign_of(part_of("laplace", found, attacks=["norm"]))))
    own = describer.settings.own
    assert own is not None
    utility, leakage = (o.variance[0] + o.variance[1] for o in own)
    gap = (0.90 - 0.89) / 0.2 - (0.30 - 0.28) / 0.9
    z = gap / math.sqrt(utility / 0.2**2 + leakage / 0.9**2)
    expected = (1 + math.erf(z / math.sqrt(2))) / 2
    assert chances_over(describer, [0], 1, by_utility=False) == pytest.approx([expected], abs=2e-3)
    assert 0.5 < expected < 0.95


def test_a_front_tells_what_fresh_seeds_found_of_what_stayed() -> None:
    part = confirmed(part_of("laplace", [(0.94, 0.6), (0.90, 0.3)]), {0: (0.93, 0.62, True), 1: (0.8, 0.4, False)})
    stays, goes = frontier(campaign_of(part))
    assert (stays["confirmed"], goes["confirmed"]) == (True, False)
    assert (stays["confirmation"]["utility"], stays["confirmation"]["leakage"]) == (0.93, 0.62)
    assert "confirmation" not in goes
    assert (stays["utility"], stays["leakage"]) == pytest.approx((0.94, 0.6)), "its place is that of the search"


def test_the_nearest_is_one_that_is_worth_having_where_any_is() -> None:
    """The second misses the constraint by less, and is less useful than the label party alone (.75)."""
    part = part_of("laplace", [(0.90, 0.4), (0.70, 0.25)])
    found = decide(joint_of(campaign_of(part, constraints={"leakage": 0.2})))
    assert found.verdict == "none_qualifies"
    assert found.nearest is not None
    assert found.nearest.number == 0
    useless = part_of("laplace", [(0.72, 0.4), (0.70, 0.25)])
    all_useless = decide(joint_of(campaign_of(useless, constraints={"leakage": 0.2})))
    assert all_useless.nearest is not None
    assert all_useless.nearest.number == 1, "where none is, the one that misses least"


def test_a_decision_that_was_not_made_has_measured_nothing() -> None:
    empty = decide(joint_of(campaign_of(part_of("laplace", []), constraints={"leakage": 0.2})))
    assert (empty.measured, empty.qualifying, empty.confidence, empty.rule) == (0, 0, 0.9, "constraints")
    bare = Decision(dataset="wine", metric="auc", verdict="nothing_measured", why="w")
    assert (bare.measured, bare.qualifying, bare.confidence, bare.rule) == (0, 0, 0.9, "knee")

"""Constraints in words, what comes nearest, and what a decision says of runners-up, challengers and rivals."""

import numpy as np

from tests.helpers.campaigns import campaign_of, confirmed, noisy, outcome_of, part_of, several
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.constraints import asked_for, lacking, nearest, nearly
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.formatting import short
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.records.campaigns import CampaignRecord

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.18), (0.85, 0.1), (0.945, 0.8))
LOW = {"leakage": 0.2}


def decided(campaign: CampaignRecord) -> Decision:
    return decide(joint_of(campaign))


# Constraints


def test_a_constraint_in_words() -> None:
    campaign = campaign_of(part_of("laplace", LAPLACE, cost=1.5), part_of("kdk", [(0.9, 0.3)]))
    bounds = UpperBounds(joint_of(campaign).settings)
    asked = {"leakage": 0.35, "utility": 0.91, "cost": 2.0, "utility_loss": 0.04}
    utility, loss = lacking(bounds, 1, asked)
    upper, lower = bounds.of("leakage").bound[1], bounds.of("utility").bound[1]
    assert utility == f"utility is .900, with 90% confidence at least {short(lower)}: not at least .910"
    assert loss.startswith("utility_loss is .050, with 90% confidence at most ")
    leakage, cost = lacking(bounds, 1, {"leakage": 0.3, "cost": 1.0})
    assert leakage == f"leakage is .300, with 90% confidence at most {short(upper)}: not at most .300"
    assert cost == "cost is 1.5: not at most 1", "measured once: its bound is itself"
    assert list(lacking(bounds, 3, {"cost": 2.0})) == ["cost: the cost of kdk was not measured"]
    assert asked_for(asked) == "leakage<=0.35 and utility>=0.91 and cost<=2 and utility_loss<=0.04"


def test_the_nearest_misses_least_in_units_of_what_is_at_stake() -> None:
    """A loss of .06 for .01 misses by .05 of a gain of .45; a cost of 3 for 2 by half, leakage by what it is."""
    parts = part_of("laplace", [(0.89, 0.15)], cost=1.0), part_of("kdk", [(0.93, 0.3)], cost=1.0)
    bounds = UpperBounds(joint_of(campaign_of(*parts)).settings)
    everything = np.ones(2, dtype=bool)
    scale = bounds.settings.scale
    assert scale is not None
    gain = scale.utility_high - scale.utility_low
    over = [float(bounds.of("utility_loss").bound[0] - 0.01) / gain, float(bounds.of("leakage").bound[1] - 0.18)]
    assert nearest(bounds, {"utility_loss": 0.01, "leakage": 0.18}, everything) == int(over[1] < over[0])
    costly = part_of("laplace", [(0.93, 0.1)], cost=3.0), part_of("kdk", [(0.9, 0.6)], cost=1.0)
    asked = {"cost": 2.0, "leakage": 0.2}
    assert nearest(UpperBounds(joint_of(campaign_of(*costly)).settings), asked, everything) == 1, (
        ".4 of leakage, half a cost"
    )
    assert nearest(UpperBounds(joint_of(campaign_of(*costly)).settings), {"cost": 2.8, "leakage": 0.2}, everything) == 0
    unknown = part_of("laplace", [(0.93, 0.1)]), part_of("kdk", [(0.9, 0.9)], cost=9.0)
    assert nearest(UpperBounds(joint_of(campaign_of(*unknown)).settings), asked, everything) == 1, "known, if far off"
    assert nearest(bounds, asked, np.zeros(2, dtype=bool)) is None


def test_what_would_do_by_its_means_is_near_and_what_surely_does_is_not() -> None:
    wide = outcome_of([0.9, 0.9, 0.9], {"norm": [0.1, 0.3, 0.17]})
    part = part_of("laplace", [wide, (0.9, 0.1), (0.9, 0.4)], attacks=["norm"])
    bounds = UpperBounds(joint_of(campaign_of(part)).settings)
    assert nearly(bounds, LOW).tolist() == [True, False, False]
    assert nearly(bounds, {"utility": 0.89995}).tolist() == [False, True, True], "no seed moves the first"


# The answer


def test_the_runner_up_is_the_best_of_another_defense() -> None:
    parts = part_of("laplace", [(0.93, 0.1), (0.92, 0.1), (0.8, 0.05)]), part_of("kdk", [(0.9, 0.1), (0.91, 0.1)])
    found = decided(campaign_of(*parts, constraints=LOW))
    assert found.setting is not None
    assert (found.setting.defense, found.setting.number) == ("laplace", 0)
    assert found.runner_up is not None
    assert (found.runner_up.defense, found.runner_up.number, found.runner_up.utility) == ("kdk", 1, 0.91)
    assert found.why == "the most useful of 5 of 5 measured settings that surely keep leakage<=0.2"
    own = decided(campaign_of(parts[0], constraints=LOW))
    assert own.runner_up is not None
    assert own.runner_up.number == 1, "of the same defense where there is no other"
    lone = decided(campaign_of(part_of("laplace", [(0.93, 0.1)]), constraints=LOW))
    assert lone.runner_up is None
    assert lone.why == "the most useful of 1 of 1 measured setting that surely keep leakage<=0.2"


def test_a_knee_that_is_not_eligible_is_none() -> None:
    parts = part_of("laplace", LAPLACE), part_of("marvell", MARVELL)
    joint = joint_of(campaign_of(*parts))
    assert joint.knee is not None
    assert joint.knee.defense == "marvell"
    found = decided(campaign_of(*parts))
    assert found.why == f"the best compromise of the joint front, {len(joint.front)} settings of 6 measured settings"
    untried = part_of("marvell", MARVELL, default=False)
    second = decided(campaign_of(parts[0], untried))
    assert second.compromise is not None
    assert second.compromise.defense == "laplace"
    assert second.why.startswith("the best eligible compromise of the joint front")


def test_what_was_not_confirmed_and_would_do_is_counted() -> None:
    """Only settings that are decided, useful and keep the constraints by the search's own numbers."""
    again = confirmed(part_of("kdk", [(0.93, 0.15)]), {0: (0.93, 0.45, True)})
    search = part_of("laplace", [(0.92, 0.1), (0.91, 0.12), (0.94, 0.5), (0.7, 0.05)])
    found = decided(campaign_of(search, again, constraints=LOW))
    assert found.verdict == "none_qualifies"
    assert found.changes[0] == (
        "2 settings would do by the search's numbers, such as laplace (camp-breast_cancer-laplace#0), "
        "and were not measured on fresh seeds, on which such numbers shrink."
    )
    wild = outcome_of([0.93, 0.93, 0.93], {"norm": [0.0, 0.9, 0.05]})
    undecided = decided(campaign_of(part_of("laplace", [wild]), again, constraints={"utility": 0.94}))
    assert not any("would do" in says for says in undecided.changes)


def test_a_challenger_with_a_fair_chance_keeps_the_answer_open() -> None:
    own = part_of("laplace", [noisy(0.93, 0.1, -0.01)], attacks=["norm"])
    opened = decided(campaign_of(own, several(0.002), constraints=LOW))
    chance = [says for says in opened.changes if "with chance" in says]
    assert len(chance) == 1
    assert chance[0].startswith("kdk scale=1 (camp-breast_cancer-kdk#0) is more useful with chance 0.")
    assert chance[0].endswith(": more seeds may turn the two.")
    closed = decided(campaign_of(own, several(0.06), constraints=LOW))
    assert not any("with chance" in says for says in closed.changes), "under a tenth it is no challenger"


def test_wide_leakages_of_the_front_are_counted() -> None:
    wild = outcome_of([0.93, 0.93, 0.93], {"norm": [0.0, 0.9, 0.3]})
    more = outcome_of([0.94, 0.94, 0.94], {"norm": [0.9, 0.2, 0.5]})
    one = decided(campaign_of(part_of("laplace", [wild, (0.9, 0.2)], attacks=["norm"])))
    two = decided(campaign_of(part_of("laplace", [wild, more], attacks=["norm"])))
    ends = "an undecided leakage: more seeds, or more rows, narrow its interval."
    assert f"1 setting of the front has {ends}" in one.changes
    assert f"2 settings of the front have {ends}" in two.changes

"""What a decision says of one setting, and which defenses are far from it, each against a closed form."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.campaigns import UNDEFENDED, campaign_of, confirmed, noisy, outcome_of, part_of, several, steady
from tune_vfl.analysis.alternatives import chances_over, far_from, rivals
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.not_examined import unexamined
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.studies import StudyRecord

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
HALF_OF_90 = 1.6448536
"""Standard errors of a normal law: half of its 90% interval."""


# What is near, what is far


def test_a_defense_is_far_beyond_half_of_the_90_interval_of_the_difference() -> None:
    """.95 of a normal law is one end of a 90% interval: within it seeds cannot tell the two apart."""
    own = part_of("laplace", [noisy(0.93, 0.1, -0.01)], attacks=["norm"])
    describer = Describer(joint_of(campaign_of(own, several(0.0))))
    assert describer.settings.own is not None
    variance = describer.settings.own[0].variance
    half = HALF_OF_90 * math.sqrt(variance[0] + variance[1])
    assert half > 0.005, "noise enough to matter"
    for share, is_far in ((0.5, False), (0.95, False), (1.05, True)):
        found = far_from(Describer(joint_of(campaign_of(own, several(share * half)))), 0)
        assert bool(found) == is_far
    assert found[0].within == pytest.approx(1.05 * half)
    certain = part_of("laplace", [(0.93, 0.1)]), part_of("kdk", [(0.9285, 0.1)])
    assert far_from(Describer(joint_of(campaign_of(*certain))), 0) == (), "below the tolerance of .002 all are equal"
    assert far_from(Describer(joint_of(campaign_of(certain[0], part_of("kdk", [(0.926, 0.1)])))), 0)


def test_a_defense_is_laid_beside_at_no_more_leakage_by_its_best_setting_there() -> None:
    near = part_of("laplace", [(0.93, 0.1), (0.6, 0.05)]), part_of("kdk", [(0.80, 0.119), (0.75, 0.01), (0.93, 0.121)])
    (far,) = far_from(Describer(joint_of(campaign_of(*near))), 0)
    assert (far.defenses, far.within) == (("kdk",), pytest.approx(0.13)), "leakage .02 above counts as no more"
    others = part_of("iso", [(0.90, 0.1)]), part_of("mid", [(0.94, 0.5)]), part_of("cae", [])
    known, without = far_from(Describer(joint_of(campaign_of(*near, *others))), 0)
    assert known.defenses == ("iso", "kdk"), "the nearest first"
    assert known.within == pytest.approx(0.03)
    assert (without.defenses, without.within) == (("mid",), None)


def test_chances_to_be_better_are_those_of_a_normal_difference() -> None:
    own = part_of("laplace", [noisy(0.93, 0.1, -0.01)], attacks=["norm"])
    describer = Describer(joint_of(campaign_of(own, several(0.006))))
    assert describer.settings.own is not None
    variance = describer.settings.own[0].variance
    z = 0.006 / math.sqrt(variance[0] + variance[1])
    expected = (1 + math.erf(z / math.sqrt(2))) / 2
    assert chances_over(describer, [0], 1, by_utility=True) == pytest.approx([expected])
    assert chances_over(describer, [1], 0, by_utility=True) == pytest.approx([1 - expected])
    one = part_of("laplace", [outcome_of([u], {"norm": [0.1]}) for u in (0.9, 0.9, 0.8)])
    certain = Describer(joint_of(campaign_of(one)))
    assert chances_over(certain, [0, 1, 2], 0, by_utility=True).tolist() == [0.5, 0.5, 0.0], "one seed: the means alone"


def test_a_compromise_weighs_by_the_undefended_model_s_gain_and_leakage() -> None:
    """Utility in units of what the federation brings, .95 - .75, and leakage in those of the undefended model's, .9."""
    points = [(0.91, 0.45), (0.87, 0.18), (0.93, 0.72)]
    describer = Describer(joint_of(campaign_of(part_of("laplace", points))))
    balance = [u / 0.2 - x / 0.9 for u, x in points]
    everything = np.ones(3, dtype=bool)
    assert rivals(describer, everything, by_utility=False) == sorted(range(3), key=lambda i: -balance[i])
    assert rivals(describer, everything, by_utility=True) == [2, 0, 1]
    behind = Describer(joint_of(campaign_of(part_of("laplace", [(0.93, 0.75), *points]))))
    assert rivals(behind, np.ones(4, dtype=bool), by_utility=False)[-1] == 0, "what is on the front goes before"


# One setting


def test_a_loss_has_the_interval_of_differences_seed_by_seed() -> None:
    shared = [0.02, -0.02, 0.0]
    model = outcome_of([0.95 + s for s in shared] + [0.95] * 7, {"norm": [0.9] * 10})
    lost = [[0.01, 0.02, 0.03], [0.05, 0.05, 0.08], [0.1, 0.12, 0.08], [0.2, 0.19, 0.21]]
    found = [
        outcome_of([0.95 + s - x for s, x in zip(shared, xs, strict=True)], {"norm": [0.1 * k] * 3})
        for k, xs in enumerate(lost)
    ]
    joint = joint_of(campaign_of(part_of("laplace", found, attacks=["norm"], baseline=model)))
    one = Describer(joint).setting(0)
    assert one.loss == pytest.approx(0.02), "what a seed does to both cancels out"
    assert one.loss_interval is not None
    assert sum(one.loss_interval) / 2 == pytest.approx(0.02)
    upper = UpperBounds(joint.settings, 0.95).of("utility_loss").bound[0]
    assert one.loss_interval[1] == pytest.approx(upper), "one end of a 90% interval is a bound of 95%"
    assert 0 < one.loss_interval[0] < 0.02 < one.loss_interval[1] < 0.04
    single = part_of("laplace", [outcome_of([0.9], {"norm": [0.1]})], attacks=["norm"])
    assert Describer(joint_of(campaign_of(single))).setting(0).loss_interval is None, "one seed has no interval"


def test_what_a_setting_keeps_and_gains_of_the_federation() -> None:
    part = part_of("laplace", LAPLACE)
    found = [Describer(joint_of(campaign_of(part))).setting(i) for i in range(3)]
    assert [s.kept for s in found] == pytest.approx([0.95, 0.75, 0.25], abs=1e-3), "(u - .75) / (.95 - .75)"
    assert [s.gained for s in found] == pytest.approx([0.19, 0.15, 0.05])
    nothing = Describer(joint_of(campaign_of(replace(part, alone=()))))
    assert (nothing.setting(0).kept, nothing.setting(0).gained) == (None, None)
    assert nothing.alone() is None
    worthless = Describer(joint_of(campaign_of(replace(part, alone=(0.97,) * 10))))
    assert worthless.setting(0).kept is None, "the federation gains nothing"
    assert worthless.useful().tolist() == pytest.approx([-0.03, -0.07, -0.17])


def test_the_strongest_attack_is_named_with_what_it_finds_and_its_floor() -> None:
    outcome = outcome_of([0.9, 0.901, 0.902], {"norm": [0.1, 0.12, 0.11], "pmc": [0.3, 0.32, 0.31]})
    found = Describer(joint_of(campaign_of(part_of("laplace", [outcome, *LAPLACE])))).strongest(0)
    assert found is not None
    assert (found.attack, found.tuned) == ("pmc", False)
    assert (found.advantage, found.success, found.floor) == pytest.approx((0.31, 0.655, 0.5))
    nobody = Describer(joint_of(campaign_of(part_of("laplace", [steady(0.9, 0.0, ())], attacks=()))))
    assert nobody.strongest(0) is None


def tuned_part(**fields: Any) -> StudyRecord:
    part = confirmed(part_of("laplace", LAPLACE), {1: (0.90, 0.3, True)})
    assert part.confirmation is not None
    (point,) = part.confirmation.points
    about = {"attack": "pmc", "params": {}, "variant": "v", "tried": 3, "minutes": 1.0}
    attacker = TunedAttack(**about, success=(0.9,), floors=(0.5,), advantages=(0.8,))
    changed = point.model_copy(update={"tuned": attacker, **fields})
    return replace(part, confirmation=part.confirmation.model_copy(update={"points": (changed,)}))


def test_an_attacker_that_was_tuned_is_named_where_it_finds_more() -> None:
    more = Describer(joint_of(campaign_of(tuned_part(leakage=0.8, leakage_interval=(0.7, 0.9))))).strongest(1)
    assert more is not None
    assert (more.attack, more.advantage, more.interval, more.tuned) == ("pmc", 0.8, (0.7, 0.9), True)
    less = Describer(joint_of(campaign_of(tuned_part()))).strongest(1)
    assert less is not None
    assert (less.attack, less.advantage, less.tuned) == ("norm", 0.3, False)
    assert less.interval == pytest.approx((0.28, 0.32))
    campaign = campaign_of(tuned_part())
    said, before = unexamined(joint_of(campaign)), campaign_of(part_of("laplace", LAPLACE))
    assert not any(says.startswith("Attackers tuned against") for says in said)
    assert any(says.startswith("Attackers tuned against") for says in unexamined(joint_of(before)))


def test_after_a_confirmation_loss_and_share_are_those_of_fresh_seeds() -> None:
    """.91 beside an undefended .95 on the same fresh seeds; the party alone is not measured again, .75 of .95."""
    part = confirmed(part_of("laplace", LAPLACE), {1: (0.91, 0.3, True), 2: (0.70, 0.2, False)})
    describer = Describer(joint_of(campaign_of(part)))
    one = describer.setting(1)
    assert (one.utility, one.leakage, one.confirmed, one.chance) == (0.91, 0.3, True, 0.9)
    assert one.utility_interval == pytest.approx((0.906, 0.914))
    assert one.loss == pytest.approx(0.04)
    assert one.kept == pytest.approx(1 - 0.04 / 0.2, abs=1e-3)
    assert one.gained == pytest.approx(0.16, abs=1e-3)
    assert describer.useful().tolist() == pytest.approx([0.19, 0.16, -0.05], abs=1e-3)
    assert describer.setting(0).confirmed is False


def test_what_it_is_laid_beside() -> None:
    describer = Describer(joint_of(campaign_of(part_of("laplace", LAPLACE))))
    model, alone = describer.undefended(), describer.alone()
    assert model is not None
    assert (model.utility, model.leakage) == pytest.approx(UNDEFENDED, abs=1e-3)
    assert model.utility_interval is not None
    assert model.utility_interval[0] < model.utility < model.utility_interval[1]
    assert model.leakage_interval is not None
    assert model.leakage_interval[0] < UNDEFENDED[1] < model.leakage_interval[1]
    assert alone is not None
    assert (alone.utility, alone.leakage, alone.who) == (0.75, None, "the label party")
    bare = Describer(joint_of(campaign_of(part_of("laplace", LAPLACE, baseline=None, alone=()))))
    assert bare.undefended() is None
    assert bare.setting(0).loss is None

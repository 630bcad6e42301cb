"""Every quantity that a decision bounds has one source: fresh seeds turn what the search said of it, both ways."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.campaigns import campaign_of, confirmed, part_of
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.constraints import lacking
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec.constraints import NAMES

GOOD, BAD = (0.93, 0.1), (0.8, 0.9)
"""Utility, and what ``norm`` finds: with one the caps below are kept, with the other they are missed."""

CAPS = {
    "utility": 0.9,
    "utility_loss": 0.05,
    "leakage": 0.2,
    "attacks.norm.advantage": 0.2,
    "attacks.norm.success": 0.6,
}


def again(searched: tuple[float, float], fresh: tuple[float, float]) -> StudyRecord:
    """Return a study of one setting that a search measured as one thing and fresh seeds as another."""
    return confirmed(part_of("laplace", [searched]), {0: (*fresh, True)})


def verdict(part: StudyRecord, constraint: str) -> str:
    campaign = campaign_of(part, constraints={constraint: CAPS[constraint]})
    return decide(joint_of(campaign)).verdict


@pytest.mark.parametrize("name", CAPS)
def test_a_confirmation_turns_what_the_search_said_of_it(name: str) -> None:
    said = verdict(part_of("laplace", [GOOD]), name), verdict(part_of("laplace", [BAD]), name)
    assert said == ("deploy", "none_qualifies")
    assert verdict(again(GOOD, BAD), name) == "none_qualifies"
    assert verdict(again(BAD, GOOD), name) == "deploy"


def test_those_are_all_quantities_that_may_be_bounded_but_one() -> None:
    names = {*NAMES, "attacks.norm.advantage", "attacks.norm.success"}
    assert names - set(CAPS) == {"cost"}, "no confirmation measures a cost: it is the search's"
    part = replace(again(GOOD, BAD), cost=1.5)
    assert UpperBounds(SettingsTable(campaign_of(part))).of("cost").value == pytest.approx([1.5])


def test_what_a_confirmation_does_not_know_is_not_known() -> None:
    part = again(GOOD, GOOD)
    assert part.confirmation is not None
    silent = part.confirmation.points[0].model_copy(update={"attacks": {}})
    lost = part.confirmation.undefended.model_copy(update={"utility": None, "utility_interval": None})
    unknown = part.confirmation.model_copy(update={"points": (silent,), "baseline": {"breast_cancer": lost}})
    bounds = UpperBounds(SettingsTable(campaign_of(replace(part, confirmation=unknown))))
    for name in ("utility_loss", "attacks.norm.advantage", "attacks.norm.success"):
        assert np.isnan(bounds.of(name).value).all()
        assert not bounds.keeps(name, 1.0).any()
    (attack,) = lacking(bounds, 0, {"attacks.norm.advantage": 0.2})
    assert attack == "attacks.norm.advantage: norm was not run on it with fresh seeds"
    assert bounds.keeps("leakage", CAPS["leakage"]).all(), "of what it does know it is the source"


def test_an_attack_that_only_a_confirmation_ran_is_bounded_by_it() -> None:
    part = confirmed(part_of("laplace", [GOOD], attacks=["pmc"]), {0: (*GOOD, True)})
    found = UpperBounds(SettingsTable(campaign_of(part)))
    assert found.of("attacks.norm.advantage").value == pytest.approx([GOOD[1]])
    assert np.isnan(found.of("attacks.pmc.advantage").value).all()

"""A federation that adds nothing to what the label party reaches alone, and the order of a study's front."""

import numpy as np
import pytest

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of
from tune_vfl.analysis.alternatives import rivals
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.reliability import checks_of, local_baseline_of, scale_of
from tune_vfl.analysis.summary import frontier, study_summary
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord

EVEN = outcome_of([0.9] * 10, {"norm": [0.8] * 10, "pmc": [0.4] * 10})


def without_gain() -> StudyRecord:
    """Return a study whose undefended model is exactly as useful as the label party's own, seed by seed."""
    return part_of("laplace", [(0.88, 0.2), (0.86, 0.1)], baseline=EVEN, alone=(0.9,) * 10)


def test_a_gain_of_exactly_nothing_is_none() -> None:
    record = without_gain()
    alone = local_baseline_of(record)
    assert alone is not None
    assert alone.gain_interval == (0.0, 0.0)
    scale = scale_of(record)
    assert scale is not None
    assert scale.utility_low == record.reference_point[0], "then utility counts from the guess"


def test_nothing_is_kept_of_no_gain() -> None:
    again = confirmed(without_gain(), {0: (0.88, 0.2, True)})
    assert Describer(joint_of(campaign_of(again))).kept(0) is None


@pytest.mark.parametrize(("alone", "says"), [(0.9, "nothing to protect it for"), (0.95, "worse than none")])
def test_the_check_of_the_gain_says_why_there_is_none(alone: float, says: str) -> None:
    record = part_of("laplace", [(0.88, 0.2)], baseline=EVEN, alone=(alone,) * 10)
    (gain,) = [check for check in checks_of(record) if check.name == "gain"]
    assert not gain.ok
    assert says in gain.says


def test_a_front_is_listed_by_falling_utility() -> None:
    record = part_of("laplace", [(0.80, 0.1), (0.90, 0.4), (0.85, 0.2)])
    assert [point["number"] for point in frontier(CampaignRecord.of(record))] == [1, 2, 0]


def test_the_frontier_of_a_campaign_of_one_study_is_that_study_s() -> None:
    record = part_of("laplace", [(0.80, 0.1), (0.90, 0.4), (0.85, 0.2)])
    campaign = CampaignRecord.of(record)
    assert frontier(campaign) == study_summary(record)["front"]
    assert frontier(campaign, "pmc") != frontier(campaign)


def test_settings_of_the_front_come_before_better_balanced_ones_behind_it() -> None:
    joint = joint_of(campaign_of(part_of("laplace", [(0.90, 0.30), (0.89, 0.31), (0.76, 0.28)])))
    ranked = rivals(Describer(joint), np.ones(3, dtype=bool), by_utility=False)
    assert [joint.points[place].number for place in ranked] == [0, 2, 1]


def test_without_constraints_no_setting_misses_one() -> None:
    campaign = campaign_of(part_of("laplace", [(0.90, 0.3), (0.85, 0.1)]), part_of("kdk", [(0.92, 0.5)]))
    found = decide(joint_of(campaign))
    assert found.setting is not None
    assert not [change for change in found.changes if "would do by its means" in change]

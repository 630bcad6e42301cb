"""A federation that adds nothing to what the label party reaches alone, and the order of a study's front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of
from tune_vfl.analysis.compromise import scale_of
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.reliability import local_baseline_of, reliability_of
from tune_vfl.analysis.study_summary import study_frontier

if TYPE_CHECKING:
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
    (gain,) = [check for check in reliability_of(record).checks if check.name == "gain"]
    assert not gain.ok
    assert says in gain.says


def test_a_front_is_listed_by_falling_utility() -> None:
    record = part_of("laplace", [(0.80, 0.1), (0.90, 0.4), (0.85, 0.2)])
    assert [point["number"] for point in study_frontier(record)] == [1, 2, 0]

"""The joint front of several studies: closed forms, and what must not change it."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of, steady
from tests.helpers.studies import made_up_study
from tune_vfl.analysis.joint_front import Joint, joint_of
from tune_vfl.evaluation.certainty import certainties
from tune_vfl.metrics import pareto
from tune_vfl.outcome import Outcome
from tune_vfl.records.answers import Confirmation, PointName
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import in_order
from tune_vfl.spec.cell import MEASURE

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.2), (0.85, 0.1), (0.945, 0.8))


def two() -> CampaignRecord:
    return campaign_of(part_of("laplace", LAPLACE), part_of("marvell", MARVELL, later=5))


def names(joint: Joint) -> list[str]:
    return [p.name.removeprefix("camp-breast_cancer-") for p in joint.front]


def test_the_front_is_that_of_all_studies_together() -> None:
    joint = joint_of(two())
    assert names(joint) == ["marvell#2", "laplace#0", "marvell#0", "marvell#1"], "by falling utility"
    assert [p.on_front for p in joint.points] == [True, False, False, True, True, True]
    steps = (0.945 - 0.94, 0.8), (0.94 - 0.92, 0.6), (0.92 - 0.85, 0.2), (0.85 - 0.5, 0.1)
    assert joint.hypervolume == pytest.approx(sum(width * (1 - x) for width, x in steps))


def test_the_history_follows_the_trials_of_all_studies_as_they_end() -> None:
    joint = joint_of(two())
    assert [(s.study.rpartition("-")[2], s.number) for s in joint.history] == [
        (defense, number) for number in range(3) for defense in ("laplace", "marvell")
    ]
    areas = [s.hypervolume for s in joint.history]
    assert areas[0] == pytest.approx(0.44 * 0.4)
    assert areas[1] == pytest.approx(0.42 * 0.8 + 0.02 * 0.4)
    assert areas == sorted(areas)
    assert areas[-1] == joint.hypervolume


def test_trials_without_a_result_count_and_have_no_place_on_it() -> None:
    failed = Outcome.failed("diverged", "NaN"), Outcome.failed("preempted", "gone")
    campaign = campaign_of(part_of("laplace", [*LAPLACE, *failed]), part_of("marvell", []))
    joint = joint_of(campaign)
    assert len(joint.points) == 3
    assert len(joint.history) == 4, "a preempted trial does not count"
    nothing = joint_of(campaign_of(part_of("laplace", failed)))
    assert (nothing.points, nothing.front, nothing.knee, nothing.hypervolume) == ((), (), None, 0.0)


def test_a_single_study_is_a_campaign_of_one() -> None:
    record = made_up_study()
    joint = joint_of(CampaignRecord.of(record))
    points = [t.outcome.objectives for t in record.ok]
    assert {p.objectives for p in joint.front} == {p for p, on in zip(points, pareto.front(points), strict=True) if on}
    assert joint.hypervolume == pytest.approx(pareto.hypervolume(points, record.reference_point))
    ended = [t.outcome.objectives for t in in_order(record.trials) if t.outcome.outcome == "ok"]
    history = [pareto.hypervolume(ended[: n + 1], record.reference_point) for n in range(len(ended))]
    steps = [s.hypervolume for s, t in zip(joint.history, in_order(record.trials), strict=True) if t in record.ok]
    assert steps == pytest.approx(history)
    found = certainties([t.outcome for t in record.ok], record.baseline)
    assert {p.number: p.sure for p in joint.points} == {t.number: c for t, c in zip(record.ok, found, strict=True)}


def test_studies_learn_from_each_other_what_is_usual_for_seeds() -> None:
    wide = outcome_of([0.90, 0.91, 0.92], {"norm": [0.2, 0.3, 0.4]})
    alone = joint_of(campaign_of(part_of("marvell", [wide, *MARVELL])))
    joint = joint_of(campaign_of(part_of("marvell", [wide, *MARVELL]), part_of("laplace", LAPLACE)))
    before, after = alone.points[0].sure.leakage_interval, joint.points[0].sure.leakage_interval
    assert before is not None
    assert after is not None
    assert after[1] - after[0] < before[1] - before[0], "steady neighbors shrink its variance"


def test_parts_may_have_met_different_attacks() -> None:
    few = [outcome_of([0.93 + w, 0.93, 0.93 - w], {"norm": [0.1, 0.1 + w, 0.1]}) for w in (0.001, 0.002, 0.003)]
    campaign = campaign_of(part_of("laplace", LAPLACE), part_of("kdk", few, attacks=["norm"]))
    joint = joint_of(campaign)
    (low, high) = joint.points[3].sure.leakage_interval or (0.0, 1.0)
    assert 0.09 < low < 0.1 < high < 0.11, "what was not run on it does not widen its leakage"
    assert {p.defense for p in joint.front} == {"laplace", "kdk"}


def test_parts_without_an_undefended_model_borrow_that_of_their_architecture() -> None:
    parts = part_of("laplace", LAPLACE), part_of("marvell", MARVELL, baseline=None)
    joint = joint_of(campaign_of(*parts))
    assert joint.undefended is not None
    assert joint.undefended.outcome == parts[0].baseline
    assert len(joint.settings.blocks) == 1
    other = replace(parts[1], cell=parts[1].cell.model_copy(update={"model": parts[1].cell.model.model_copy()}))
    other = replace(other, baseline=Outcome.failed("diverged", "NaN"))
    assert len(joint_of(campaign_of(parts[0], other)).points) == 6
    neither = joint_of(campaign_of(*(replace(p, baseline=None, alone=()) for p in parts)))
    assert neither.undefended is None
    assert neither.knee is not None, "the chord of the front, where there is no scale"


def test_one_setting_of_another_architecture_does_not_take_the_chances_from_the_others() -> None:
    other = part_of("gafm", [(0.93, 0.7)], baseline=steady(0.94, 0.85, seeds=10))
    joint = joint_of(campaign_of(part_of("laplace", [*LAPLACE, (0.6, 0.9)]), part_of("marvell", MARVELL), other))
    assert len(joint.settings.blocks) == 2
    assert joint.settings.whole is not None
    assert 0 < sum(p.chance > 0.03 for p in joint.points) < len(joint.points)
    assert joint.undefended is not None
    assert joint.undefended.outcome == joint.parts[0].baseline, "the one that most studies share"


def test_settings_that_cannot_be_told_apart_stand_together() -> None:
    noisy = [
        outcome_of([u - d, u, u + d], {"norm": [x + 5 * d, x - 5 * d, x]})
        for u, x, d in ((0.90, 0.30, 0.01), (0.901, 0.31, -0.01), (0.80, 0.05, 0.005))
    ]
    joint = joint_of(campaign_of(part_of("laplace", noisy[:1]), part_of("kdk", noisy[1:])))
    together = [[p.name.rpartition("-")[2] for p in group] for group in joint.together]
    assert together == [["kdk#0", "laplace#0"], ["kdk#1"]]


def test_a_chance_is_high_on_a_clear_front_and_none_far_behind() -> None:
    joint = joint_of(campaign_of(part_of("laplace", [*LAPLACE, (0.6, 0.9)]), part_of("marvell", MARVELL)))
    chances = {p.name.rpartition("-")[2]: p.chance for p in joint.points}
    assert chances["marvell#1"] > 0.9
    assert chances["laplace#3"] < 0.03
    one = [outcome_of([u], {"norm": [x]}) for u, x in MARVELL]
    assert [p.chance for p in joint_of(campaign_of(part_of("marvell", one))).points] == [1.0, 1.0, 1.0]


Points = list[tuple[float, float]]
POINTS = st.lists(
    st.tuples(st.integers(55, 95), st.integers(5, 95)).map(lambda p: (p[0] / 100, p[1] / 100)), min_size=1, max_size=6
)


@settings(max_examples=25, deadline=None)
@given(first=POINTS, second=POINTS)
def test_a_dominated_study_changes_no_front(
    first: list[tuple[float, float]], second: list[tuple[float, float]]
) -> None:
    parts = part_of("laplace", first), part_of("kdk", second)
    worst = min(u for u, _ in first) - 0.02, max(x for _, x in first) + 0.02
    behind = part_of("iso", [worst, (worst[0] - 0.01, worst[1] + 0.01)])
    fewer, more = joint_of(campaign_of(*parts)), joint_of(campaign_of(*parts, behind))
    assert names(fewer) == names(more)
    assert fewer.hypervolume == pytest.approx(more.hypervolume)
    assert fewer.knee is not None
    assert more.knee is not None
    assert fewer.knee.name == more.knee.name


def test_the_order_of_the_studies_changes_nothing() -> None:
    parts = [part_of("laplace", LAPLACE), part_of("marvell", MARVELL), part_of("kdk", [(0.91, 0.4), (0.7, 0.05)])]
    joints = [joint_of(campaign_of(*order)) for order in permutations(parts)]
    assert len({tuple(names(j)) for j in joints}) == 1
    assert len({j.knee and j.knee.name for j in joints}) == 1
    for joint in joints:
        assert joint.hypervolume == pytest.approx(joints[0].hypervolume)
        assert {p.name: pytest.approx(p.chance) for p in joint.points} == {p.name: p.chance for p in joints[0].points}


def test_a_confirmation_of_several_studies_gives_the_knee_of_what_stayed() -> None:
    laplace, marvell = two().studies
    parts = (
        confirmed(laplace, {0: (0.93, 0.65, True)}),
        confirmed(marvell, {0: (0.91, 0.4, False), 1: (0.84, 0.1, True)}),
    )
    joint = joint_of(campaign_of(*parts))
    assert joint.knee is not None
    assert joint.knee.name == "camp-breast_cancer-marvell#1", "the knee of the search did not stay"
    assert [p.confirmed for p in joint.points] == [True, False, False, False, True, False]
    assert joint.settings.known[3].tolist() == [0.91, 0.4], "what is known of a point that did not stay"
    assert joint.point("camp-breast_cancer-marvell", 0) is joint.points[3]


def test_a_confirmation_of_the_whole_campaign_names_the_knee() -> None:
    laplace, marvell = two().studies
    parts = confirmed(laplace, {0: (0.93, 0.65, True)}), confirmed(marvell, {1: (0.84, 0.1, True)})
    named = PointName(study=laplace.name, number=0)
    rest: dict[str, Any] = {"points": (), "lines": (), "checks": (), "reserve": {}, "baseline": {}, "gap": {}}
    about: dict[str, Any] = {
        "schema": "tune-vfl/confirmation/1",
        "name": "camp",
        "measure": MEASURE,
        "seeds": (1000,),
        **rest,
    }
    answer = Confirmation(**about, knee={"breast_cancer": named})
    joint = joint_of(campaign_of(*parts, confirmation=answer))
    assert joint.knee is not None
    assert (joint.knee.study, joint.knee.number) == named.setting


def test_several_data_sets_have_a_front_each() -> None:
    campaign = campaign_of(part_of("laplace", LAPLACE), part_of("laplace", MARVELL, dataset="wine"))
    assert [len(joint_of(campaign, d).points) for d in campaign.datasets] == [3, 3]
    assert {p.dataset for p in joint_of(campaign, "wine").points} == {"wine"}


def test_a_point_without_attacks_has_no_leakage_and_breaks_nothing() -> None:
    joint = joint_of(campaign_of(part_of("laplace", [steady(0.9, 0.0, ())]), part_of("kdk", MARVELL)))
    assert joint.points[0].sure.leakage_interval is None

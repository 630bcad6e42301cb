"""Settings side by side and their one-sided bounds, in closed form: what is shared, what is missing, what is older."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.campaigns import UNDEFENDED, again_of, campaign_of, chosen, confirmed, outcome_of, part_of, steady
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.selection import choose, parse
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named
from tune_vfl.statistics import leakage_bounds, levels
from tune_vfl.statistics.intervals import PRIOR
from tune_vfl.statistics.laws import t_quantile

POINTS = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
LOST = Outcome.failed("oom", "full")
BARE = ((0.9, 0.0), (0.8, 0.0))


def bounds_of(*parts: StudyRecord, **fields: Any) -> UpperBounds:
    return UpperBounds(SettingsTable(campaign_of(*parts, **fields)))


def one_seed(*points: tuple[float, float]) -> StudyRecord:
    return part_of("laplace", [outcome_of([u], {"norm": [x]}) for u, x in points])


# Blocks


def test_a_study_whose_undefended_model_was_lost_is_compared_with_one_of_its_architecture() -> None:
    whole, lost = part_of("laplace", POINTS), part_of("iso", POINTS[:1], baseline=LOST)
    (together,) = SettingsTable(campaign_of(lost, whole)).blocks
    assert together.undefended == whole.baseline
    other = replace(lost, cell=lost.cell.model_copy(update={"model": Named(name="cnn")}))
    alone, rest = SettingsTable(campaign_of(other, whole)).blocks
    assert (alone.undefended, rest.undefended) == (None, whole.baseline)
    assert [block.rows.tolist() for block in (alone, rest)] == [[0], [1, 2, 3]]
    never = replace(lost, baseline=None)
    assert SettingsTable(campaign_of(never, whole)).blocks[0].undefended == whole.baseline


def test_intervals_are_given_in_the_order_of_settings_whatever_block_they_are_in() -> None:
    shared, other = part_of("laplace", POINTS[:1]), part_of("kdk", POINTS[2:])
    between = part_of("gafm", POINTS[1:2], baseline=steady(0.94, 0.85, seeds=10))
    settings = SettingsTable(campaign_of(shared, between, other))
    assert [block.rows.tolist() for block in settings.blocks] == [[0, 2], [1]]
    for sure, (utility, leakage) in zip(settings.sure, POINTS, strict=True):
        assert sure.utility_interval is not None
        assert sure.leakage_interval is not None
        assert sure.utility_interval[0] < utility < sure.utility_interval[1]
        assert sure.leakage_interval[0] < leakage < sure.leakage_interval[1]


def test_from_one_seed_nothing_is_sure_and_nothing_is_undecided() -> None:
    settings = SettingsTable(campaign_of(one_seed(*POINTS)))
    assert [s.leakage_worst_seed for s in settings.sure] == [pytest.approx(x) for _, x in POINTS]
    assert {(s.utility_interval, s.leakage_interval, s.undecided) for s in settings.sure} == {(None, None, False)}
    assert settings.advantage_interval(0, "norm") is None
    bare = part_of("iso", [steady(u, 0.0, ()) for u, _ in BARE], attacks=())
    assert SettingsTable(campaign_of(bare)).advantage_interval(0, "norm") is None


def test_one_attack_s_interval_is_that_of_its_setting() -> None:
    gains = np.asarray([[[0.5, 0.52, 0.54], [0.3, 0.31, 0.29], [0.1, 0.14, 0.12]], [[0.2, 0.1, 0.3]] * 3])
    outcomes = [outcome_of([0.9, 0.91, 0.92], {"norm": norm, "pmc": pmc}) for norm, pmc in zip(*gains, strict=True)]
    settings = SettingsTable(campaign_of(part_of("laplace", outcomes)))
    for k, attack in enumerate(("norm", "pmc")):
        for row, bounds in enumerate(leakage_bounds(gains[[k]])):
            assert settings.advantage_interval(row, attack) == pytest.approx((bounds.lower, bounds.upper))


# UpperBounds


def test_a_utility_holds_for_other_rows_too_where_their_spread_is_known() -> None:
    def over_rows(variances: list[float]) -> float:
        more = {"utility_variance": variances, "rows_shared": 0.25}
        outcomes = [steady(u, x).model_copy(update=more) for u, x in POINTS]
        return float(bounds_of(part_of("laplace", outcomes, baseline=None)).of("utility").bound[0])

    level = levels([steady(u, x).utility.values for u, x in POINTS])  # type: ignore[union-attr]
    t = t_quantile(0.9, level.df)[0]
    mean = 0.25 * (1e-4 + 4e-4 + 1e-4) / 3
    assert over_rows([1e-4, 4e-4, 1e-4]) == pytest.approx(level.interval(0.8, [mean] * 3)[0][0])
    seeds_alone = float(level.mean[0] - t * level.se[0])
    assert over_rows([1e-4, 4e-4]) == over_rows([]) == pytest.approx(seeds_alone), "not of every seed"
    assert over_rows([1e-4, 4e-4, 1e-4]) < seeds_alone


def test_a_lucky_undefended_model_lifts_no_bound_of_a_utility_above_its_mean() -> None:
    """Its first three seeds were worse than its others: so were the settings', but what is shown is their mean."""
    seeds = [0.899, 0.900, 0.901, *([0.949, 0.95, 0.951] * 7)]
    baseline = outcome_of(seeds, {"norm": [0.9] * len(seeds)})
    found = bounds_of(part_of("laplace", [*POINTS, (0.85, 0.5)], baseline=baseline)).of("utility")
    assert found.bound == pytest.approx(found.value), "the level is above it"


def test_a_loss_needs_an_undefended_model_with_every_seed_of_the_setting() -> None:
    two = outcome_of([0.95, 0.951], {"norm": [0.9, 0.9]})
    assert np.isnan(bounds_of(part_of("laplace", POINTS, baseline=two)).of("utility_loss").value).all()


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
def test_a_loss_on_fresh_seeds_has_both_intervals_where_the_search_saw_no_spread(confidence: float) -> None:
    part = confirmed(one_seed(*POINTS), {1: (0.88, 0.3, True)})
    found = bounds_of(part, confidence=confidence).of("utility_loss")
    one, ninety = t_quantile([confidence, 0.95], 9 + PRIOR).tolist()
    halves = 0.004 * one / ninety, 0.003 * one / ninety  # of the setting's interval, and of the undefended model's
    assert found.value[1] == pytest.approx(0.95 - 0.88)
    assert found.bound[1] == pytest.approx(0.95 - 0.88 + np.hypot(*halves))
    assert found.bound[0] == found.value[0] == pytest.approx(UNDEFENDED[0] - 0.001 - POINTS[0][0])


def test_fresh_numbers_without_an_interval_are_taken_at_their_word() -> None:
    part = confirmed(part_of("laplace", POINTS), {1: (0.88, 0.28, True)})
    assert part.confirmation is not None
    (point,) = part.confirmation.points
    bare = point.model_copy(update={"utility_interval": None, "leakage_interval": None, "leakage_upper_90": None})
    found = bounds_of(replace(part, confirmation=part.confirmation.model_copy(update={"points": (bare,)})))
    assert found.of("utility").bound[1] == 0.88
    assert found.of("leakage").bound[1] == 0.28


def test_a_bound_of_fresh_seeds_lies_where_student_s_law_puts_it_and_never_below_its_value() -> None:
    part = confirmed(part_of("laplace", POINTS), {1: (0.88, 0.28, True)})
    for confidence in (0.6, 0.9, 0.95, 0.99):
        of, at, ninety, end = *t_quantile([confidence, 0.9, 0.95], 9 + PRIOR).tolist(), 0.28 + 0.02
        expected = max(0.28, 0.295 + (end - 0.295) * (of - at) / (ninety - at))
        assert bounds_of(part, confidence=confidence).of("leakage").bound[1] == pytest.approx(expected)
    sharp = part.confirmation.points[0].model_copy(update={"leakage_upper_90": 0.2801})  # type: ignore[union-attr]
    sharper = part.confirmation.model_copy(update={"points": (sharp,)})  # type: ignore[union-attr]
    low = bounds_of(replace(part, confirmation=sharper), confidence=0.55).of("leakage")
    assert low.bound[1] == low.value[1] == 0.28


def test_a_leakage_is_not_known_where_no_attack_was_run_unless_fresh_seeds_ran_one() -> None:
    bare = part_of("iso", [steady(u, 0.0, ()) for u, _ in BARE], attacks=())
    found = bounds_of(bare)
    assert np.isnan(found.of("leakage").value).all()
    assert found.unknown(0, "leakage") == "no attack was run on it"
    again = bounds_of(confirmed(bare, {1: (0.79, 0.2, True)})).of("leakage")
    assert np.isnan(again.value[0])
    assert (again.value[1], again.bound[1]) == pytest.approx((0.2, 0.215))


def test_a_candidate_that_a_setting_has_not_is_stood_in_for_by_another_of_its_own() -> None:
    outcomes = [steady(u, x, ("norm",)) for u, x in POINTS]
    outcomes[0].attacks["norm"].candidates["w"] = [0.99, 0.98, 0.97]
    (block,) = SettingsTable(campaign_of(part_of("laplace", outcomes, attacks=["norm"]))).blocks
    places, names = block.met("norm")
    successes = block.successes(places, names)
    assert names == [("norm", "v"), ("norm", "w")]
    assert successes[1, 0] == pytest.approx([0.99, 0.98, 0.97])
    assert successes[1, 1:] == pytest.approx(successes[0, 1:])
    assert successes[0].mean(1) == pytest.approx([0.5 + x / 2 for _, x in POINTS])


def test_an_attack_is_taken_at_its_word_from_one_seed() -> None:
    for what, expected in (("advantage", [x for _, x in POINTS]), ("success", [0.5 + x / 2 for _, x in POINTS])):
        found = bounds_of(one_seed(*POINTS)).of(f"attacks.norm.{what}")
        assert found.value == pytest.approx(expected)
        assert found.bound == pytest.approx(expected)


# Selecting


def test_a_cost_that_some_studies_lack_is_no_reason_to_say_that_none_is_known() -> None:
    campaign = campaign_of(part_of("laplace", POINTS), part_of("kdk", POINTS, cost=3.0))
    with pytest.raises(SelectionError, match=r"no setting meets 'cost<=2'.*leakage 0\.6000$"):
        choose(SettingsTable(campaign), parse("cost<=2"))
    assert choose(SettingsTable(campaign), parse("cost<=3")) == 3, "the first of the study whose cost is known"


def test_a_front_is_where_nothing_else_is_said_and_equal_settings_go_by_number() -> None:
    settings = SettingsTable(part_of("laplace", [(0.8, 0.3), (0.9, 0.3), (0.9, 0.3), (0.9, 0.2)]))
    assert choose(settings, parse("min-leakage")) == choose(settings, parse("max-utility")) == 3
    assert choose(settings, parse("leakage>=0.25")) == 1
    assert choose(settings, parse("utility<=0.9")) == 3, "on the utility alone, by the estimate: what leaks least"


def test_what_is_asked_of_a_study_and_is_of_another_is_refused() -> None:
    record = part_of("laplace", POINTS)
    with pytest.raises(UsageError, match="expected one of the studies camp-breast_cancer-laplace"):
        chosen(record, "camp-wine-laplace#1")
    assert chosen(record, "camp-breast_cancer-laplace#1").number == 1
    with pytest.raises(SelectionError, match="trial 7: no such trial; its front is 0, 1, 2"):
        chosen(record, "trial=7")
    nothing = part_of("laplace", [LOST])
    with pytest.raises(SelectionError, match="trial 0: it ended as oom; its front is empty, for no trial ended ok"):
        chosen(nothing, "trial=0")
    with pytest.raises(SelectionError, match="has no point to select from"):
        chosen(nothing, "knee")


def test_the_larger_of_two_numbers_is_larger_in_everything() -> None:
    low, high = again_of(0.3, 0.02), again_of(0.4, 0.2)
    raised = low.raised(high)
    assert (raised.value, raised.interval[1], raised.upper_90) == pytest.approx((0.4, 0.6, 0.55))
    assert raised.interval[0] == pytest.approx(0.28)
    assert high.raised(low) == raised

"""What is selected of a study, where its trials stand, and how far it may be trusted: against closed forms."""

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from tests.helpers.campaigns import UNDEFENDED, campaign_of, chosen, confirmed, outcome_of, part_of, steady
from tests.helpers.confirmations import knee_named
from tests.helpers.fronts import front_of, knee_of, ranks_of
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.compromise import compromise_of
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.reliability import LocalBaseline, checks_of, local_baseline_of, scale_of
from tune_vfl.analysis.selection import Condition, parse
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.evaluation.certainty import certainties
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord, TrialRecord, in_order
from tune_vfl.statistics import levels
from tune_vfl.statistics.laws import t_quantile

POINTS = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25), (0.85, 0.5))


def hypervolume_history(trials: Iterable[TrialRecord], reference: tuple[float, float]) -> list[float]:
    record = replace(study(), trials=tuple(trials), reference_point=reference)
    return [step.hypervolume for step in Joint(record).history]


def study(**fields: Any) -> StudyRecord:
    return part_of("laplace", POINTS, **fields)


# Selecting


@pytest.mark.parametrize(
    ("text", "compare", "surely"),
    [
        ("leakage<=0.2", "<=", True),
        ("leakage < 0.2", "<", True),
        ("leakage>=0.2", ">=", False),
        ("utility>=0.9", ">=", True),
        ("utility>0.9", ">", True),
        ("utility<=0.9", "<=", False),
        ("cost<=2", "<=", True),
        ("attacks.pmc.success>1e-1", ">", False),
    ],
)
def test_a_condition_holds_surely_where_more_would_be_worse(text: str, compare: str, surely: bool) -> None:
    ((condition),) = parse(text).conditions
    assert (condition.compare, condition.surely) == (compare, surely)


def test_what_is_kept_is_compared_as_it_is_written() -> None:
    bounds = UpperBounds(SettingsTable(campaign_of(study(cost=2.0))))
    for compare, holds in (("<=", True), (">=", True), ("<", False), (">", False)):
        assert Condition("cost", compare, 2.0).kept(bounds).tolist() == [holds] * 4
    value, bound = bounds.of("leakage")
    at = float(value[1])
    assert Condition("leakage", ">=", at).kept(bounds).tolist() == [True, True, False, True], "by the estimates"
    assert not Condition("leakage", "<=", at).kept(bounds)[1], "not surely"
    assert Condition("leakage", "<=", float(bound[1])).kept(bounds)[1]


def test_selections_as_they_are_read() -> None:
    assert parse(" knee ").rule == "knee"
    assert parse("trial = 21")[1:] == ("trial", (), None, 21)
    assert parse(" a-b # 3 ".replace(" #", "#").replace("# ", "#"))[1:] == ("trial", (), "a-b", 3)
    both = parse("leakage<=0.2 and utility >= .9")
    assert both.conditions == (Condition("leakage", "<=", 0.2), Condition("utility", ">=", 0.9))
    for wrong in ("leakage<=x", "loss<=1", "leakage=1", "leakage<=0.2 or utility>=1", ""):
        with pytest.raises(UsageError, match="expected decision, knee, max-utility, min-leakage, trial=21"):
            parse(wrong)


def test_how_far_the_front_goes_and_from_where_on_a_condition_holds() -> None:
    bounds = UpperBounds(SettingsTable(study()))
    least, most = bounds.of("leakage").bound.min(), bounds.of("utility").bound.max()
    with pytest.raises(SelectionError) as found:
        chosen(study(), "leakage<=0.1 and utility>=0.99")
    assert str(found.value) == (
        "no setting meets 'leakage<=0.1 and utility>=0.99'; the front goes from utility 0.8000, leakage 0.2500 to "
        f"utility 0.9400, leakage 0.6000; leakage must be below with 90% confidence, which holds from {least:.4f} up; "
        f"utility must be above with 90% confidence, which holds from {most:.4f} down"
    )
    with pytest.raises(SelectionError, match=r"cost is not known: the cost of laplace was not measured$"):
        chosen(study(), "cost<=1")
    with pytest.raises(SelectionError) as told:
        chosen(study(cost=3.0), "cost<=1")
    assert str(told.value).endswith("to utility 0.9400, leakage 0.6000"), "measured once: nothing more to say"
    with pytest.raises(SelectionError) as plain:
        chosen(study(), "leakage>=0.9")
    assert str(plain.value).endswith("leakage 0.6000"), "an estimate need not be sure"


def test_what_is_best_among_those_that_meet_conditions() -> None:
    record = study()
    assert chosen(record, "leakage<=0.7").number == 0, "the most useful one"
    assert chosen(record, "utility>=0.7").number == 2, "on the utility alone: the one that leaks least"
    assert chosen(record, "utility>=0.7 and leakage<=0.55").number == 1
    assert chosen(record, "max-utility").number == 0
    assert chosen(record, "min-leakage").number == 2
    twins = part_of("laplace", [(0.9, 0.3), (0.9, 0.3), (0.9, 0.2)])
    assert chosen(twins, "max-utility").number == 2, "of equal ones that leaks least"
    equal = part_of("laplace", [(0.9, 0.3), (0.9, 0.3)])
    assert chosen(equal, "max-utility").number == 0
    assert [s.number for s in SettingsTable(record).front()] == [0, 1, 2]
    assert [s.number for s in SettingsTable(equal).front()] == [0, 1], "equal points all stay"
    stayed = confirmed(record, {1: (0.89, 0.31, True), 2: (0.95, 0.1, False)})
    assert chosen(stayed, "max-utility").number == 1, "what did not stay is not taken"
    assert chosen(stayed, "min-leakage").number == 1


# Standing


def test_ranks_front_and_hypervolume_of_a_study() -> None:
    assert ranks_of(study()) == {0: 0, 1: 0, 2: 0, 3: 1}
    assert front_of(study()) == (0, 1, 2), "by falling utility"
    area = (0.94 - 0.9) * 0.4 + (0.9 - 0.8) * 0.7 + (0.8 - 0.5) * 0.75
    assert Joint(study()).hypervolume == pytest.approx(area)
    assert knee_of(part_of("laplace", [])) is None


def test_the_hypervolume_grows_in_the_order_in_which_trials_finished() -> None:
    failed, lost = Outcome.failed("oom", "full"), Outcome.failed("preempted", "x")
    record = part_of("laplace", [(0.9, 0.3), failed, lost, (0.8, 0.1)])
    first, *rest = record.trials
    late = replace(first, finished=first.finished + timedelta(hours=1))
    assert [t.number for t in in_order([late, *rest])] == [1, 3, 0], "a preempted one does not count"
    assert hypervolume_history(record.trials, (0.5, 1.0)) == pytest.approx([0.28, 0.28, 0.28 + 0.3 * 0.2])
    assert hypervolume_history([late, *rest], (0.5, 1.0)) == pytest.approx([0.0, 0.27, 0.27 + 0.1 * 0.7])


def test_a_compromise_is_weighed_between_the_party_alone_and_the_undefended_model() -> None:
    scale = scale_of(study())
    assert scale is not None
    assert (scale.utility_low, scale.utility_high, scale.leakage_high) == pytest.approx((0.75, *UNDEFENDED), abs=1e-3)
    assert compromise_of([], scale) is None
    outcomes = [t.outcome for t in study().trials]
    balance = [(u - 0.75) / 0.2 - x / 0.9 for u, x in POINTS]
    assert compromise_of(outcomes, scale) == int(np.argmax(balance))
    chord = compromise_of(outcomes[:3], None)
    assert chord == 1, "the bend of the front, where there is no scale"
    bare = [steady(u, x, ()) for u, x in POINTS[:3]]
    assert compromise_of(bare, scale) == 0, "none was attacked: the most useful"
    named = confirmed(study(), {2: (0.8, 0.2, True)})
    assert named.confirmation is not None
    with_knee = replace(named, confirmation=named.confirmation.model_copy(update={"knee": knee_named(named.name, 2)}))
    assert knee_of(with_knee) == 2


# Trust


def test_what_the_party_alone_reaches_and_what_the_federation_adds() -> None:
    own = [0.74, 0.76, 0.75] + [0.75] * 7
    found = local_baseline_of(study(alone=tuple(own)))
    assert found is not None
    assert (found.utility, found.gain) == pytest.approx((0.75, 0.2), abs=1e-3)
    low, high = (float(end[0]) for end in levels([own]).interval())
    assert found.interval == pytest.approx((low, high))
    assert found.kept(0.85) == pytest.approx((0.85 - found.utility) / found.gain)
    assert found.who == "the label party"
    baseline = study().baseline
    assert baseline is not None
    assert baseline.utility is not None
    gained = np.asarray(baseline.utility.values) - own
    half = float(t_quantile(0.95, 9)) * gained.std(ddof=1) / math.sqrt(10)
    assert found.gain_interval == pytest.approx((gained.mean() - half, gained.mean() + half), rel=0.05)
    doubtful = local_baseline_of(study(alone=(0.90, 0.99) * 5))
    assert doubtful is not None
    assert doubtful.gain_interval[0] < 0 < doubtful.gain_interval[1]
    assert doubtful.kept(0.9) is None, "of a gain that may be none"
    assert local_baseline_of(study(alone=(0.75,) * 9)) is None, "another number of seeds"
    assert local_baseline_of(study(alone=())) is None
    assert local_baseline_of(study(baseline=None)) is None


def test_a_client_or_a_party_alone_reaches_no_more_than_everything() -> None:
    """Ten seeds between .9 and 1: the interval of their mean ends at 1, and a gain that nothing can have is none."""
    found = local_baseline_of(study(alone=(1.0,) * 8 + (0.5, 1.0)))
    assert found is not None
    assert found.interval[1] == 1.0
    assert found.gain < 0
    assert found.kept(0.9) is None
    assert LocalBaseline(0.75, (0.7, 0.8), 0.2, (0.0, 0.4)).kept(0.9) is None, "an interval from none on"
    single = part_of("laplace", POINTS, baseline=outcome_of([0.95], {"norm": [0.9]}), alone=(0.75,))
    assert local_baseline_of(single) is None, "a single seed has no interval"


def test_checks_look_at_the_sample_of_one_setting_alone() -> None:
    names = [check.name for check in checks_of(study())]
    assert names.count("seeds") == names.count("rare_class") == names.count("amplification") == 1
    assert "seeds" not in [check.name for check in checks_of(part_of("laplace", []))]
    assert "gain" not in [check.name for check in checks_of(study(alone=()))]


def gain_check(**fields: Any) -> tuple[bool, str]:
    found = next(check for check in checks_of(study(**fields)) if check.name == "gain")
    return found.ok, found.says


def test_a_federation_that_adds_nothing_fails_a_check() -> None:
    ok, says = gain_check()
    assert (ok, says) == (True, "the federation adds 0.200 to the 0.750 that the label party reaches alone")
    none = [0.94, 0.96] * 5
    ok, says = gain_check(alone=tuple(none))
    assert not ok
    assert says.endswith("reaches alone: nothing to protect it for")
    ok, says = gain_check(alone=(0.97,) * 10)
    assert not ok
    assert "can be worse than none; try fewer epochs" in says


def test_checks_and_intervals_of_a_study() -> None:
    record = study()
    settings = SettingsTable(record)
    assert record.baseline is not None
    assert settings.baseline is not None
    assert [setting.number for setting in settings.rows] == [0, 1, 2, 3]
    assert [s.sure for s in settings.rows] == certainties([t.outcome for t in record.ok], record.baseline)
    assert settings.baseline.sure == certainties([record.baseline])[0]
    assert checks_of(record)
    missing = checks_of(replace(record, baseline=Outcome.failed("oom", "full")))
    assert [(c.name, c.ok) for c in missing] == [("undefended", False)]
    assert SettingsTable(replace(record, baseline=None)).baseline is None

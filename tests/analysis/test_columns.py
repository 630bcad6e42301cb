"""The columns that answers, files and tables choose from: what a row has, what it lacks, and what people read."""

import pytest

from tests.helpers.campaigns import campaign_of, confirmed, part_of
from tune_vfl.analysis.columns import texts, titles, values
from tune_vfl.analysis.joint_front import Joint, joint_of
from tune_vfl.outcome import Outcome

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))


def joint(**fields: object) -> Joint:
    return joint_of(campaign_of(part_of("laplace", LAPLACE, **fields)))


def test_a_row_has_the_columns_that_it_is_asked_for_in_their_order() -> None:
    point = joint().points[1]
    found = values(point, ("number", "knee", "leakage", "params.*", "defense.*", "attack.*"), knee=True)
    assert list(found) == [
        "number", "knee", "leakage", "params.scale", "defense.scale", "attack.norm", "attack.pmc",
    ]  # fmt: skip
    assert (found["number"], found["knee"], found["defense.scale"]) == (1, True, 2.0)
    assert found["leakage"] == pytest.approx(0.3)


def test_what_a_row_cannot_have_is_left_out_and_what_is_unknown_is_none() -> None:
    assert "gain_kept" not in values(joint(alone=()).points[0], ("number", "gain_kept")), "no model of one party"
    assert values(joint(alone=(0.97,) * 10).points[0], ("gain_kept",)) == {"gain_kept": None}, "nothing is gained"
    point = joint().points[0]
    assert values(point, ("not_needed", "confirmation")) == {}
    assert values(point, ("confirmed.utility",)) == {"confirmed.utility": None}


def test_a_column_of_fresh_seeds_is_the_one_of_its_confirmation() -> None:
    part = confirmed(part_of("laplace", LAPLACE), {1: (0.89, 0.35, True)})
    point = joint_of(campaign_of(part)).points[1]
    found = values(point, ("utility", "confirmed.utility", "confirmed.leakage_low", "confirmed.seeds"))
    assert found["utility"] == pytest.approx(0.90)
    assert (found["confirmed.utility"], found["confirmed.seeds"]) == (0.89, 10)
    assert found["confirmed.leakage_low"] == pytest.approx(0.33)
    assert texts(point.again, ("leakage",)) == {"leakage": "0.350 (0.330 to 0.370)"}


def test_the_undefended_model_has_the_texts_of_a_setting() -> None:
    found = joint()
    assert found.undefended is not None
    names = ("utility", "gain_kept", "strongest_attack")
    low, high = found.undefended.utility_interval or (0.0, 0.0)
    assert texts(found.undefended, names) == {
        "utility": f"0.950 ({low:.3f} to {high:.3f})", "gain_kept": "100%", "strongest_attack": "norm",
    }  # fmt: skip
    assert titles(names, "AUC") == ("AUC", "gain kept", "strongest attack ")


def test_a_failed_trial_has_no_numbers() -> None:
    record = part_of("laplace", [*LAPLACE, Outcome.failed("diverged", "NaN")])
    trial = joint_of(campaign_of(record)).settings.trials[-1]
    names = ("outcome", "reason", "utility", "leakage_std", "attacks")
    assert values(trial, names) == {
        "outcome": "diverged", "reason": "NaN", "utility": None, "leakage_std": None, "attacks": {},
    }  # fmt: skip

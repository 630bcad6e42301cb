"""The papers' scalars of settings: published values, where formulas do not apply, and what a search does not know."""

import math

import pytest

from tune_vfl.metrics.published import cap_by_attack, published, scalars
from tune_vfl.outcome import AttackScore, Outcome, Score


def score(metric, values, **extra):
    return AttackScore(**Score.of(metric, values).model_dump(), extra=extra)


def outcome(utility, attacks, *, metric="auc", training=()):
    return Outcome(
        outcome="ok",
        utility=Score.of(metric, utility),
        training_utility=list(training),
        attacks=attacks,
        leakage=0.0,
        leakage_std=0.0,
    )


def test_cap_of_one_setting_is_the_published_one():
    # FedAdOb, tables 4 and 6: AlexNet on CIFAR-10, PMC without a defense
    found = scalars(outcome([0.877], {"pmc": score("top1", [1 - 0.368])}, metric="accuracy"))
    assert found["pmc"].cap == pytest.approx(0.3227, abs=5e-5)
    assert found["pmc"][1:] == (None, None)  # no AUC, no ratio


def test_errors_are_those_of_classes_or_of_features():
    attacks = {
        "wmi": score("reconstruction", [0.7], mse=0.05),
        "pmc": score("leak_auc", [0.9], top1=0.75),
        "norm": score("leak_auc", [0.9]),
    }
    found = scalars(outcome([0.8], attacks))
    assert [found[name].cap for name in attacks] == [pytest.approx(0.04), pytest.approx(0.2), None]
    assert found["wmi"].utility_per_leak is None


def test_ratios_are_means_over_seeds_of_each_seeds_own():
    norm = score("leak_auc", [0.5, 0.8])
    found = scalars(outcome([0.9, 0.8], {"norm": norm}, training=[1.0, 0.8]))["norm"]
    assert found.utility_per_leak == pytest.approx((0.9 / 0.5 + 0.8 / 0.8) / 2)
    assert found.leak_per_training_auc == pytest.approx((0.5 / 1.0 + 0.8 / 0.8) / 2)
    searched = scalars(outcome([0.9, 0.8], {"norm": norm}))["norm"]
    assert searched == found._replace(leak_per_training_auc=None)


def test_what_does_not_apply_is_left_out_and_nothing_is_no_number():
    assert published(outcome([0.9], {"norm": score("top1", [math.nan])}, metric="accuracy")) == {}
    assert scalars(Outcome.failed("diverged", "x")) == {}
    zero = published(outcome([0.9], {"norm": score("leak_auc", [0.0])}))
    assert zero == {}
    assert published(outcome([0.9], {"norm": score("leak_auc", [0.6])})) == {"norm": {"utility_per_leak": 1.5}}


def test_cap_of_several_settings_is_their_mean_and_their_spread():
    settings = [
        outcome([0.5], {"pmc": score("top1", [0.8]), "norm": score("leak_auc", [0.7])}),
        outcome([1.0], {"pmc": score("top1", [0.6])}),
        Outcome.failed("diverged", "x"),
    ]
    found = cap_by_attack(settings)
    assert set(found) == {"pmc"}
    assert found["pmc"].settings == 2
    assert found["pmc"].cap == pytest.approx(0.25)
    assert found["pmc"].std == pytest.approx(0.3 / 2**0.5)
    assert cap_by_attack(settings[:1])["pmc"].std == 0.0

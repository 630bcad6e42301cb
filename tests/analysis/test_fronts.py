"""Compromises, fronts against one attack, and how numbers are written."""

import math
from dataclasses import replace

import pytest

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of, steady
from tests.helpers.confirmations import knee_named
from tune_vfl.analysis.compromise import knee_of
from tune_vfl.analysis.formatting import count, listed, metric, number, score, setting, short, short_span, span
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.not_examined import unexamined
from tune_vfl.analysis.summary import frontier
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.errors import UnknownNameError
from tune_vfl.evaluation.coverage import Coverage

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))

# Compromises


def test_of_what_stayed_the_middle_of_those_that_fresh_seeds_cannot_tell_apart() -> None:
    """Their intervals say how far: half of one, over 1.645, is a standard error of the balance of utility and leakage.

    The three lie on the undefended scale at balances b, b - .05 and b - .1, the best with the most leakage; .05 of
    utility's scale is .01. Half a utility's interval is .004 here and half a leakage's .02: an error of .018 in all.
    """
    balances, leaks = (0.0, -0.01, -0.1), (0.30, 0.20, 0.10)
    points = [(0.8 + 0.2 * (b + x / 0.9), x) for b, x in zip(balances, leaks, strict=True)]
    parts = part_of("laplace", points[:2]), part_of("kdk", points[2:])
    again = (
        confirmed(parts[0], {n: (*points[n], True) for n in range(2)}),
        confirmed(parts[1], {0: (*points[2], True)}),
    )
    assert knee_of(joint_of(campaign_of(*again)).settings, [0, 1, 2]) == 1, "two near ones: that of less leakage"
    error = math.hypot(0.004 / 0.2, 0.02 / 0.9) / 1.645
    assert 0.01 < error < 0.03
    for share, best in ((0.9, 1), (1.1, 0)):
        moved = (points[0], (points[0][0] + 0.2 * (-share * error - 0.1 / 0.9), 0.20), points[2])
        laplace = confirmed(parts[0], {n: (*moved[n], True) for n in range(2)})
        assert knee_of(joint_of(campaign_of(laplace, again[1])).settings, [0, 1, 2]) == best
    lone = confirmed(part_of("laplace", LAPLACE), {0: (0.94, 0.6, True), 1: (0.9, 0.3, True)})
    assert lone.confirmation is not None
    named = replace(lone, confirmation=lone.confirmation.model_copy(update={"knee": knee_named(lone.name, 1)}))
    assert knee_of(joint_of(campaign_of(named)).settings, [0, 1, 2]) == 1, "a lone study's confirmation names it"


def test_without_a_scale_what_stayed_has_the_knee_of_its_own_front() -> None:
    points = [(0.94, 0.9), (0.93, 0.2), (0.7, 0.1)]
    parts = [part_of(d, points[k : k + 2], baseline=None, alone=()) for d, k in (("laplace", 0), ("kdk", 1))]
    again = [confirmed(p, {n: (*points[k + n], True) for n in range(2)}) for k, p in enumerate(parts)]
    knee = knee_of(joint_of(campaign_of(*again)).settings, [0, 1, 2, 3])
    assert knee in {1, 2}, "the bend, not an end"


# Fronts against one attack, and other attacks


def test_a_front_against_one_attack_is_by_what_that_one_finds() -> None:
    found = [
        outcome_of([0.93, 0.931, 0.929], {"norm": [0.5, 0.52, 0.48], "pmc": [0.1, 0.13, 0.07]}),
        outcome_of([0.90, 0.901, 0.899], {"norm": [0.2, 0.21, 0.19], "pmc": [0.4, 0.4, 0.4]}),
    ]
    parts = part_of("laplace", found), part_of("kdk", [steady(0.95, 0.01, ["norm"])], attacks=["norm"])
    (best,) = frontier(campaign_of(*parts), "pmc")
    assert (best["defense"], best["number"]) == ("laplace", 0), "kdk did not meet it; the other setting leaks more"
    assert (best["utility"], best["leakage"], best["leakage_std"]) == pytest.approx((0.93, 0.1, 0.03))
    assert not {"leakage_interval", "leakage_worst_seed", "undecided", "chance", "together"} & set(best)
    with pytest.raises(UnknownNameError, match=r"unknown attack of camp 'bgi'.* Known: norm, "):
        frontier(campaign_of(*parts), "bgi")
    plain = {p["number"]: p for p in frontier(campaign_of(parts[0]))}
    assert plain[0]["leakage"] == pytest.approx(0.5)
    assert plain[0]["leakage_std"] == pytest.approx(0.02)
    assert plain[0]["utility_std"] == pytest.approx(0.001)
    assert plain[0]["attacks"] == pytest.approx({"norm": 0.75, "pmc": 0.55})
    assert plain[0]["gain_kept"] == pytest.approx((0.93 - 0.75) / 0.2, abs=1e-3)
    assert plain[0]["together"] == []
    assert [p["number"] for p in frontier(campaign_of(parts[0]))] == [0, 1]


def test_attacks_on_features_are_examined_where_one_was_run() -> None:
    part = part_of("laplace", LAPLACE)
    says = "Features: only what is revealed of labels was measured."
    for features in (False, True):
        kept = Coverage(untried=(), acts=False, features=features, goals=("labels",))
        campaign = campaign_of(replace(part, coverage=kept))
        assert (says in unexamined(joint_of(campaign))) == (not features)
    adaptive = "Attackers tuned against the setting itself: `tune-vfl confirm --adaptive MINUTES` tunes them."
    assert adaptive in unexamined(joint_of(campaign_of(part)))
    assert "no attack took part in the training" in " ".join(unexamined(joint_of(campaign_of(part))))
    assert any(ATTACKS[name].capabilities.acts for name in ATTACKS)
    rows = "Other rows: auc has no formula for them, so its intervals speak of this data set alone."
    assert rows in unexamined(joint_of(campaign_of(part)))


# Words


def test_numbers_as_they_are_written() -> None:
    values = [0.0031622, 3.0, 7, True, None, "iso", 1234.5, 123456.0, 1e6, 2.5e-7, math.inf, -5000.0]
    written = ["0.00316", "3", "7", "true", "null", "iso", "1234", "123456", "1e6", "2.5e-7", "Infinity", "-5000"]
    assert [number(v) for v in values] == written
    assert number([1, "a"]) == '[1, "a"]'
    assert [score(None), score(0.5), score(0.5, 0.0123), score(0.5, digits=1)] == ["–", "0.500", "0.500 ± 0.012", "0.5"]
    assert span(0.5, (0.25, 0.75), 0.1) == "0.500 (0.250 to 0.750)"
    assert [span(0.5, None, 0.1), span(None, (0.0, 1.0))] == ["0.500 ± 0.100", "–"]
    assert short_span(0.5, (0.25, 0.75)) == ".500 (.250 to .750)"
    assert short(-0.5) == "-.500"
    assert setting({"a": 1, "b": 0.5}) == "a=1, b=0.5"
    assert setting({"a": 1, "b": 0.5}, ["b"]) == "b=0.5"
    assert setting({}) == setting({"a": 1}, []) == "no parameters"
    assert [count(1, "trial"), count(2, "trial"), count(0, "is", "are")] == ["1 trial", "2 trials", "0 are"]
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert [metric("auc"), metric("balanced_accuracy"), metric("my_own")] == ["AUC", "balanced accuracy", "my own"]

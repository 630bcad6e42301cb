"""From successes by seed to one attack's score: the variant that counts, its floor, its signed advantages."""

from __future__ import annotations

import numpy as np
import pytest

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.evaluation.summarizing import CHOSEN, best_of, standing, summarize
from tune_vfl.metrics.curves import ends_of
from tune_vfl.outcome import strongest_of

NORM, PMC, COMPLETION = (ATTACKS[n]() for n in ("norm", "pmc", "gradient_completion"))


def column(*success, validation=None):
    return {"success": list(success), **({"validation": list(validation)} if validation else {})}


def score(variants, *, attack=NORM, r_lower=None, guess=0.5):
    return summarize(attack, variants, num_classes=2, guess=guess, r_lower=r_lower)


def test_the_statistics_own_example_of_a_floor_close_to_one():
    found = score({"logreg": column(0.989, 0.923, 0.966)}, attack=PMC, r_lower=[0.95, 0.96, 0.967])
    assert found.advantages == pytest.approx([0.949435, -0.902241, -0.022804], abs=1e-6)
    assert np.mean(found.advantages) == pytest.approx(0.008130, abs=1e-6)
    assert found.advantage == pytest.approx(np.mean(found.advantages))  # what intervals are about, divided alike
    assert found.floors == [0.95, 0.96, 0.967]


def test_the_floor_is_chosen_once_for_the_study():
    found = score({"v": column(0.9, 0.9)}, r_lower=[0.2, 0.7])
    assert found.floors == [0.5, 0.5]  # their mean is below the guess: seed by seed it would be .5 and .7
    assert score({"v": column(0.9, 0.9)}, r_lower=[0.4, 0.7]).floors == [0.4, 0.7]


def test_below_the_floor_it_is_signed_by_seed_and_zero_where_it_is_shown():
    found = score({"v": column(0.4, 0.45)})
    assert found.advantages == pytest.approx([-0.2, -0.1])
    assert found.advantage == 0.0


def test_without_a_way_to_choose_the_best_variant_is_an_upper_bound():
    found = score({"a": column(0.6, 0.7), "b": column(0.9, 0.5)})
    assert (found.variant, found.upper_bound) == ("b", True)
    assert set(found.candidates) == {"a", "b"}
    assert not score({"a": column(0.6, 0.7)}).upper_bound


def test_an_attacker_that_can_choose_does_seed_by_seed():
    variants = {
        "a": column(0.6, 0.9, validation=(0.8, 0.7)),
        "b": column(0.7, 0.5, validation=(0.9, 0.6)),
        "c": column(0.1, 0.1),
    }
    found = score(variants, attack=PMC)
    assert (found.variant, found.values, found.upper_bound) == (CHOSEN, [0.7, 0.9], False)
    assert found.candidates == {CHOSEN: [0.7, 0.9], "c": [0.1, 0.1]}
    assert set(found.variants) == {"a", "b", "c"}
    assert found.extra[CHOSEN] == pytest.approx(0.8)


def test_the_same_choice_in_every_seed_keeps_its_name():
    variants = {"a": column(0.6, 0.9, validation=(0.8, 0.7)), "b": column(0.7, 0.5, validation=(0.1, 0.6))}
    assert best_of(standing(PMC, variants))[0] == "a"


def test_a_better_variant_that_cannot_be_validated_is_an_upper_bound():
    variants = {"a": column(0.6, 0.6, validation=(0.8, 0.7)), "b": column(0.9, 0.9)}
    found = score(variants, attack=PMC)
    assert (found.variant, found.upper_bound) == ("b", True)


def test_an_attack_that_names_its_answer_is_scored_by_it_alone():
    assert COMPLETION.choice is not None
    found = score({COMPLETION.choice: column(0.7, 0.7), "head": column(0.9, 0.9)}, attack=COMPLETION)
    assert (found.variant, found.mean, found.upper_bound) == (COMPLETION.choice, 0.7, False)
    assert set(found.candidates) == {COMPLETION.choice}


def test_a_variant_that_is_undefined_with_one_seed_is_left_out():
    assert score({"a": column(0.6, float("nan")), "b": column(0.55, 0.5)}).variant == "b"
    assert score({"a": column(0.6, float("nan"))}) is None


def test_at_one_percent_of_false_alarms():
    y = np.array([1] * 100 + [0] * 100)
    perfect = np.r_[np.ones(100), np.zeros(100)]
    half = np.r_[np.full(50, 2.0), np.zeros(50), np.ones(100)]
    found = [ends.sure for ends in ends_of([perfect, np.zeros(200), half], [y] * 3)]
    assert found == pytest.approx([1.0, 0.01, 0.5]), "ties: a straight line"
    assert np.isnan(ends_of([np.zeros(3)], [np.ones(3, int)])[0].sure)


def test_the_strongest_attack_is_the_nearest_to_its_floor_where_none_reaches_it():
    far, near = score({"v": column(0.1, 0.2)}), score({"v": column(0.49, 0.48)})
    found = score({"v": column(0.6, 0.7)})
    assert (far.advantage, near.advantage) == (0.0, 0.0)
    assert strongest_of({"far": far, "near": near}) == "near"
    assert strongest_of({"far": far, "near": near, "found": found}) == "found"
    assert strongest_of({}) == ""

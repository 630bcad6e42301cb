"""Advantages by seed: golden values, what the pseudo-values keep, floors that leave nothing to gain."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics import advantage, chosen_floor, narrow, pseudo_values

seeds = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.95)), min_size=1, max_size=8)


def test_the_golden_seeds():
    found = advantage([0.989, 0.923, 0.966], [0.95, 0.96, 0.967])
    assert found.value == pytest.approx(0.008130, abs=5e-7)
    assert found.by_seed == pytest.approx([0.949435, -0.902241, -0.022804], abs=5e-7)
    assert found.headroom == pytest.approx(0.041)
    assert narrow(1 - found.headroom)


@settings(deadline=None)
@given(seeds)
def test_pseudo_values_average_to_the_ratio_of_means(rows):
    a, f = np.array(rows).T
    found = advantage(a, f)
    assert found.value == pytest.approx((a.mean() - f.mean()) / (1 - f.mean()))
    assert found.by_seed.mean() == pytest.approx(found.value, abs=1e-9)
    assert found.headroom == pytest.approx(1 - f.mean())


@settings(deadline=None)
@given(seeds, st.floats(0, 0.9))
def test_with_one_floor_they_are_each_seeds_own_advantage(rows, floor):
    a = np.array(rows)[:, 0]
    found = advantage(a, np.full(len(a), floor))
    assert found.by_seed == pytest.approx((a - floor) / (1 - floor), abs=1e-9)


@settings(deadline=None)
@given(seeds)
def test_pseudo_values_are_the_derivative_of_the_ratio(rows):
    a, f = np.array(rows).T
    found, step, n = advantage(a, f), 1e-6, len(rows)
    for s in range(n):
        weights = np.full(n, 1 / n)
        weights[s] += step
        moved = (weights @ (a - f)) / (weights @ (1 - f))
        assert (moved - found.value) / step == pytest.approx(found.by_seed[s] - found.value, abs=1e-3, rel=1e-3)


def test_a_floor_of_one_leaves_nothing_to_gain():
    found = advantage([1.0, 0.9], [1.0, 1.0])
    assert (found.value, found.headroom, found.by_seed.tolist()) == (0.0, 0.0, [0.0, 0.0])
    assert narrow(1.0)
    assert [narrow(floor) for floor in (0.5, 0.9, 0.91)] == [False, False, True], "a tenth is no less than a tenth"


def test_the_floor_is_chosen_once_for_all_seeds():
    guess, lower = [0.5, 0.5, 0.5], [0.4, 0.7, 0.5]

    def chosen(**without):
        by, by_seed = chosen_floor(guess, without)
        return by, by_seed.tolist()

    assert chosen(a=lower) == ("a", lower)
    assert chosen(a=[0.4, 0.6, 0.45]) == chosen(a=guess) == chosen() == ("guess", guess)


def test_of_several_ways_the_best_on_average_is_the_floor_whichever_seeds_it_is_worse_on():
    steady, uneven = [0.6, 0.6], [0.9, 0.4]
    for ways in ({"steady": steady, "uneven": uneven}, {"uneven": uneven, "steady": steady}):
        assert chosen_floor([0.5, 0.5], ways).by == "uneven"
        assert chosen_floor([0.5, 0.5], ways).by_seed.tolist() == uneven


def test_what_cannot_be_an_advantage_is_refused():
    with pytest.raises(UsageError, match="success: nan at seeds 1"):
        advantage([0.5, math.nan], [0.5, 0.5])
    with pytest.raises(ShapeError, match="got 2 and 1"):
        advantage([0.5, 0.6], [0.5])
    with pytest.raises(ShapeError, match="guess and pmc: one number a seed each, got 2 and 3"):
        chosen_floor([0.5, 0.6], {"pmc": [0.5, 0.5, 0.5]})


@pytest.mark.parametrize("seeds", [1, 2, 3, 7, 8, 9, 30])
def test_many_settings_at_once_are_each_by_itself_digit_by_digit(seeds):
    rng = np.random.default_rng(seeds)
    success, floor = rng.uniform(size=(40, seeds)), rng.uniform(size=(40, seeds))
    floor[7] = 1.0
    together = pseudo_values(success, floor)
    assert together.tolist() == [advantage(a, f).by_seed.tolist() for a, f in zip(success, floor, strict=True)]
    with pytest.raises(ShapeError, match="one number a setting and seed each"):
        pseudo_values(success, floor[:3])

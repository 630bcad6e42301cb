"""M, C, W and the bounds on the largest advantage: closed forms, twins, and what must always hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics import (
    Limits,
    bounds,
    chosen_attacks,
    clipped,
    cross_selected,
    leakage_bounds,
    levels,
    mean_of_maxima,
    means_of_maxima,
    upper_bounds,
    worst_attack,
)

values = st.integers(-10, 50).map(lambda v: v / 50)
tables = arrays(float, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=values)
stacks = arrays(float, st.tuples(st.integers(1, 4), st.integers(5, 7), st.integers(2, 4)), elements=values)

X = np.array([[0.3, 0.1, 0.2], [0.0, 0.5, 0.2]])


def test_a_table_that_can_be_read_off():
    assert worst_attack(X) == 1
    assert mean_of_maxima(X) == pytest.approx(1.0 / 3)
    # Without the first seed the second attack leads, without the second the first does, without the third the second.
    assert chosen_attacks(X).tolist() == [1, 0, 1]
    assert cross_selected(X) == pytest.approx((0.0 + 0.1 + 0.2) / 3)
    # One seed of the search in which the first attack is far ahead decides all.
    assert cross_selected(X, [[0.9], [0.0]]) == pytest.approx(0.2)
    assert cross_selected(X[:, :1], [[0.0], [0.9]]) == 0.0


@settings(deadline=None)
@given(tables, st.integers(0, 2))
def test_cross_selection_agrees_with_its_plain_twin(x, searched):
    rng = np.random.default_rng(searched)
    earlier = rng.integers(0, 50, (len(x), searched)) / 50 if searched else None
    total = 0.0
    for s in range(x.shape[1]):
        others = np.delete(x, s, axis=1)
        means = (others if earlier is None else np.hstack([earlier, others])).mean(1)
        total += x[np.flatnonzero(means >= means.max() - 1e-12)[0], s]
    assert cross_selected(x, earlier) == pytest.approx(total / x.shape[1])


@settings(deadline=None)
@given(tables)
def test_the_order_of_the_three(x):
    assert cross_selected(x) <= mean_of_maxima(x) + 1e-12
    assert x.mean(1).max() <= mean_of_maxima(x) + 1e-12


@settings(deadline=None)
@given(tables, st.integers(0, 4))
def test_a_copy_of_an_attack_changes_nothing(x, which):
    twice = np.vstack([x, x[which % len(x)]])
    assert cross_selected(twice) == cross_selected(x)
    assert mean_of_maxima(twice) == mean_of_maxima(x)


def test_on_noise_cross_selection_is_unbiased_and_the_largest_mean_is_not():
    rng = np.random.default_rng(0)
    draws = rng.normal(0, 0.06, (2000, 5, 3))
    chosen = np.array([cross_selected(x) for x in draws])
    assert abs(chosen.mean()) < 3 * chosen.std() / np.sqrt(len(draws))
    # The mean of the largest of five standard normal numbers is 1.163.
    assert np.mean(draws.mean(2).max(1)) == pytest.approx(1.163 * 0.06 / np.sqrt(3), rel=0.04)


@settings(deadline=None)
@given(stacks)
def test_another_attack_never_lowers_the_upper_bounds(x):
    fewer, more = leakage_bounds(x[:-1]) if len(x) > 1 else [], leakage_bounds(x)
    for few, many in zip(fewer, more, strict=False):
        assert many.upper >= few.upper
        assert many.upper_90 >= few.upper_90


@settings(deadline=None)
@given(stacks, st.sampled_from([0.0, 0.05, 0.5]), st.integers(0, 3))
def test_bounds_enclose_the_largest_mean(x, noise, narrow):
    limits = Limits(np.full(x.shape[:2], noise), np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) % 4 < narrow)
    for setting, found in enumerate(leakage_bounds(x, limits)):
        assert 0 <= found.lower <= found.upper_90 <= found.upper <= 1
        assert found.lower <= clipped(x[:, setting].mean(1).max()) <= found.upper
        assert found.contenders[worst_attack(x[:, setting])]


def test_one_attack_alone_has_the_interval_of_its_level():
    x = 0.4 + 0.05 * np.random.default_rng(1).normal(size=(1, 8, 3))
    low, high = levels(x[0]).interval()
    found = leakage_bounds(x)
    assert [b.lower for b in found] == pytest.approx(low)
    assert [b.upper for b in found] == pytest.approx(high)


def test_contenders_share_the_tails():
    df = np.full(4, 6.0)
    found = bounds([0.5, 0.5, 0.5, 0.1], np.full(4, 0.05), df)
    assert found.contenders.tolist() == [True, True, True, False]
    assert found.lower == pytest.approx(0.5 - stats.t.ppf(1 - 0.05 / 3, 6) * 0.05)
    assert found.upper == pytest.approx(0.5 + stats.t.ppf(0.95, 6) * 0.05)
    assert found.upper_90 == pytest.approx(0.5 + stats.t.ppf(0.9, 6) * 0.05)
    alone = bounds([0.5, 0.1], [0.05, 0.05], [6.0, 6.0])
    assert alone.lower == pytest.approx(0.5 - stats.t.ppf(0.95, 6) * 0.05)
    # A noisier attack with a smaller mean may have the larger end.
    assert bounds([0.5, 0.4], [0.01, 0.2], [6.0, 6.0]).upper == pytest.approx(0.4 + stats.t.ppf(0.95, 6) * 0.2)


def test_lower_ends_of_several_equal_attacks_lie_above_the_truth_in_at_most_5_percent():
    rng = np.random.default_rng(5)
    draws = rng.normal(0.3, 0.05, (1500, 5, 1, 10))
    above = np.mean([leakage_bounds(x)[0].lower > 0.3 for x in draws])
    assert above < 0.05 + 1.645 * np.sqrt(0.05 * 0.95 / len(draws)), "with .1 shared among them it was .1"


def folded(rng, shape, folds=10):
    """AUCs minus 1/2 of scores whose end the other folds say, on noise: a mean of 0 and a long tail to the left."""
    areas = rng.normal(0, 1, (*shape, folds))
    return (np.sign(areas.sum(-1, keepdims=True) - areas) * areas).mean(-1)


def test_three_seeds_of_a_skewed_law_are_no_leak():
    rng = np.random.default_rng(6)
    draws, allowed = 0.3 * folded(rng, (2000, 1, 1, 3)), 0.05 + 1.645 * np.sqrt(0.05 * 0.95 / 2000)
    assert np.mean([leakage_bounds(x)[0].lower > 0 for x in draws]) > 0.15, "by Student's t alone"
    noise = np.full((1, 1), 0.3 * folded(rng, (20000,)).std() / np.sqrt(3))
    known = Limits(noise, np.zeros((1, 1), dtype=bool))
    assert np.mean([leakage_bounds(x, known)[0].lower > 0 for x in draws]) < allowed


def test_what_noise_cannot_explain_is_left_to_the_seeds_of_several_settings_and_widened_of_few():
    x = 0.8 + np.random.default_rng(7).normal(0, 0.01, (1, 6, 3))
    limits = Limits(np.full((1, 6), 0.05), np.zeros((1, 6), dtype=bool))
    assert [b[:3] for b in leakage_bounds(x, limits)] == [b[:3] for b in leakage_bounds(x)]
    few = limits.of([0], range(4))
    for found, plain, mean, se in zip(
        leakage_bounds(x[:, :4], few), leakage_bounds(x[:, :4]), x[0].mean(1), stats.sem(x[0], axis=1), strict=False
    ):
        half = stats.t.ppf(0.95, 2) * np.sqrt((2 * 0.05**2 + 2 * se**2) / 4)
        assert (found.lower, found.upper) == pytest.approx((mean - half, min(1, mean + half)))
        assert found.lower < plain.lower
    assert upper_bounds(x[:, :4], 0.9, few) == pytest.approx([b.upper_90 for b in leakage_bounds(x[:, :4], few)])


def test_where_the_floor_leaves_little_nothing_is_surely_little():
    x = [[[0.05, 0.06, 0.07]], [[0.3, 0.31, 0.32]]]
    narrow = Limits(np.zeros((2, 1)), np.array([[True], [False]]))
    (found,), (plain,) = leakage_bounds(x, narrow), leakage_bounds(x)
    assert (found.upper, found.upper_90, found.undecided, plain.undecided) == (1.0, 1.0, True, False)
    assert 0 < found.lower <= plain.lower, "the other attack finds what it finds"
    assert upper_bounds(x, 0.8, narrow).tolist() == [1.0]
    (leaks,) = leakage_bounds([[[0.8, 0.81, 0.82]]], Limits(np.zeros((1, 1)), np.array([[True]])))
    assert not leaks.undecided, "that much leaks may still be sure"


def test_what_is_shown_lies_between_nothing_and_all():
    wide = bounds([-0.2, 0.5], [0.1, 2.0], [4.0, 4.0])
    assert (wide.lower, wide.upper) == (0.0, 1.0)
    assert wide.undecided
    assert not bounds([0.5], [0.01], [4.0]).undecided
    assert clipped([-0.5, 0.25, 3.0]).tolist() == [0.0, 0.25, 1.0]


def test_equal_values_have_bounds_of_no_width():
    found = leakage_bounds(np.full((2, 6, 3), 0.25))[0]
    assert (found.lower, found.upper, found.upper_90) == (0.25, 0.25, 0.25)


def test_what_cannot_be_bounded_is_refused():
    with pytest.raises(UsageError, match="single seed"):
        cross_selected([[0.1], [0.2]])
    with pytest.raises(UsageError, match="at least 2 seeds"):
        leakage_bounds(np.zeros((2, 6, 1)))
    with pytest.raises(UsageError, match="nan at attacks 0, seeds 1"):
        mean_of_maxima([[0.1, np.nan]])
    with pytest.raises(ShapeError, match="2 attacks, and 1 in the search"):
        cross_selected(X, [[0.1]])
    with pytest.raises(ShapeError, match="got 2, 1 and 2"):
        bounds([0.1, 0.2], [0.1], [2.0, 2.0])
    with pytest.raises(ShapeError, match="attacks, settings, seeds"):
        leakage_bounds(X)


@pytest.mark.parametrize("seeds", [2, 3, 8, 30])
def test_the_worst_seeds_of_many_settings_are_those_of_each_digit_by_digit(seeds):
    x = np.random.default_rng(seeds).normal(size=(5, 40, seeds))
    assert means_of_maxima(x).tolist() == [mean_of_maxima(x[:, i]) for i in range(40)]

"""Intervals: golden numbers, a plain twin of the shrinkage, what must always hold, and what is refused."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics import delong_variance, differences, levels, levels_by_undefended, share_variance, undecided
from tune_vfl.statistics.intervals import Estimate, plain_levels, shrink, shrunk_differences, shrunk_levels
from tune_vfl.statistics.laws import satterthwaite

ROWS = np.array([[0.10, 0.22, 0.31], [0.38, 0.50, 0.47], [0.0, 0.09, 0.10], [0.58, 0.60, 0.80]])
blocks = arrays(
    float, st.tuples(st.integers(2, 8), st.integers(2, 6)), elements=st.integers(-20, 20).map(lambda v: v / 8)
)


def drawn(settings: int, seeds: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(settings, 1)) + rng.normal(size=seeds) + 0.3 * rng.normal(size=(settings, seeds))


def test_the_golden_block():
    found = shrink(ROWS)
    assert found.own == pytest.approx([0.001956, 0.003089, 0.002150, 0.004372], abs=5e-7)
    assert found.shared == pytest.approx(0.005317, abs=5e-7)
    assert shrunk_levels(ROWS).half_width() == pytest.approx([0.11133, 0.11252, 0.11133, 0.11609], abs=5e-6)
    gaps = shrunk_differences(ROWS)
    assert gaps.mean[1, 0] == pytest.approx(0.24)
    assert gaps.half_width()[1, 0] == pytest.approx(0.07675, abs=5e-6)
    assert gaps.df[1, 0] == pytest.approx(7.6156, abs=5e-5)


def naive_own(block):
    """The shrunk variances, entry by entry."""
    n, s = block.shape
    d, found = s - 1, []
    for i in range(n):
        total = 0.0
        for t in range(s):
            usual = sum(block[k, t] - block[k].mean() for k in range(n)) / n
            total += (block[i, t] - block[i].mean() - usual) ** 2
        found.append(total / (d * (1 - 1 / n)))
    return [(2 * sum(found) / n + d * own) / (2 + d) for own in found]


@settings(deadline=None)
@given(blocks)
def test_shrinkage_agrees_with_its_plain_twin(block):
    assert shrink(block).own == pytest.approx(naive_own(block), abs=1e-12)


@settings(deadline=None)
@given(blocks, st.integers(-5, 5))
def test_what_a_seed_does_to_all_settings_leaves_differences_alone(block, shift):
    moved = block.copy()
    moved[:, 0] += shift
    before, after = differences(block), differences(moved)
    assert after.mean == pytest.approx(before.mean, abs=1e-9)
    assert after.half_width() == pytest.approx(before.half_width(), abs=1e-7)


@settings(deadline=None)
@given(blocks)
def test_differences_are_antisymmetric_and_none_to_oneself(block):
    found = differences(block)
    assert found.mean == pytest.approx(-found.mean.T)
    assert found.half_width() == pytest.approx(found.half_width().T)
    assert np.diag(found.mean) == pytest.approx(np.zeros(len(block)))


@settings(deadline=None)
@given(blocks, st.sampled_from([0.25, 4.0]))
def test_intervals_follow_the_unit(block, unit):
    for estimate in (levels, lambda b: Estimate(*(a[0] for a in differences(b)))):
        assert estimate(block * unit).half_width() == pytest.approx(estimate(block).half_width() * unit, abs=1e-9)


def test_few_settings_go_by_their_own_variance():
    block = drawn(4, 6)
    found = levels(block)
    for row, mean, half in zip(block, found.mean, found.half_width(), strict=True):
        low, high = stats.t.interval(0.9, 5, row.mean(), stats.sem(row))
        assert (mean - half, mean + half) == pytest.approx((low, high))
    paired = stats.ttest_rel(block[0], block[1]).confidence_interval(0.9)
    low, high = differences(block).interval()
    assert (low[0, 1], high[0, 1]) == pytest.approx((paired.low, paired.high))


def test_many_settings_share_what_is_usual():
    block = drawn(24, 3)
    assert levels(block).half_width() == pytest.approx(shrunk_levels(block).half_width())
    own, plain = shrink(block).own, plain_levels(block).se ** 2 * 3
    assert own.std() < plain.std()


def test_more_seeds_of_the_undefended_model_narrow_levels_and_take_out_its_luck():
    rng = np.random.default_rng(1)
    luck = rng.normal(size=10)
    undefended = luck + 0.1 * rng.normal(size=10)
    block = luck[:3] + 0.1 * rng.normal(size=(24, 3))
    plain, better = levels(block), levels_by_undefended(block, undefended)
    assert (better.half_width() < plain.half_width()).all()
    # Nearly all is shared: what is left of the correction is the difference of the two means.
    assert better.mean - plain.mean == pytest.approx(undefended.mean() - undefended[:3].mean(), rel=0.05)


def test_the_correction_in_closed_form():
    rng = np.random.default_rng(2)
    block, more = drawn(9, 4, seed=5), rng.normal(size=12)
    s, r, parts = 4, 12, shrink(np.vstack([block, more[:4]]))
    v, v0 = parts.own[:-1], parts.own[-1]
    w = (3 * parts.shared + 11 * max(0.0, more.var(ddof=1) - v0)) / 14
    b = w / (w + v0)
    # The weights of the seeds' shared parts, straight from the definition of the estimate.
    weights = np.where(np.arange(r) < s, (1 - b) / s + b / r, b / r)
    of_seeds, rest = w * (weights**2).sum(), b**2 * v0 * (1 / s - 1 / r)
    found = levels_by_undefended(block, more)
    assert found.mean == pytest.approx(block.mean(1) - b * (more[:4].mean() - more.mean()))
    assert found.se**2 == pytest.approx(of_seeds + v / s + rest)
    assert found.df == pytest.approx(
        (of_seeds + v / s + rest) ** 2 / (of_seeds**2 / 11 + (v / s) ** 2 / 5 + rest**2 / 5)
    )


def test_no_more_seeds_of_the_undefended_model_change_nothing():
    block = drawn(6, 3)
    assert levels_by_undefended(block, [1.0, 2.0, 3.0]).half_width() == pytest.approx(levels(block).half_width())
    assert levels_by_undefended(block[:3], range(10)).half_width() == pytest.approx(levels(block[:3]).half_width())
    with pytest.raises(ShapeError, match="at least the 3 seeds"):
        levels_by_undefended(block, [1.0, 2.0])


def test_new_rows_add_their_own_variance():
    found = levels(drawn(6, 3))
    assert found.half_width(rows=0.25) ** 2 == pytest.approx(found.half_width() ** 2 + (stats.norm.ppf(0.95) / 2) ** 2)
    certain = Estimate(np.array(0.9), np.array(0.0), np.array(2.0))
    assert certain.half_width(rows=share_variance(0.9, 100)) == pytest.approx(1.645 * 0.03, rel=1e-3)


def test_the_variance_of_a_share():
    assert share_variance(0.5, 1) == 0.25
    assert share_variance(0.9, 100) == pytest.approx(0.0009)
    assert share_variance(0.0, 3) == share_variance(1.0, 3) == 0.0
    for share, rows in ((0.5, 0), (-0.1, 3), (1.1, 3)):
        with pytest.raises(UsageError, match="share"):
            share_variance(share, rows)


def test_delong_in_closed_form():
    # Without ties and with one negative, the AUC is the share of positives above it; the negative has no spread.
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # undefined, and no division that went wrong
        assert np.isnan(delong_variance([0.1, 0.2, 0.3], [1, 1, 0]))
        assert np.isnan(delong_variance([0.1, 0.2, 0.3], [0, 1, 0]))
        assert delong_variance([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]) == 0.0
    scores, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 0, 1])
    # Placements of the positives 1/2 and 1, of the negatives 1 and 1/2: a variance of 1/8 each, over 2 rows.
    assert delong_variance(scores, y) == pytest.approx(1 / 8)


def test_delong_is_the_variance_over_draws():
    rng = np.random.default_rng(3)
    y = np.r_[np.ones(60), np.zeros(140)]
    draws = [rng.normal(size=200) + y for _ in range(600)]
    areas = [stats.mannwhitneyu(s[y == 1], s[y == 0]).statistic / (60 * 140) for s in draws]
    assert np.mean([delong_variance(s, y) for s in draws]) == pytest.approx(np.var(areas), rel=0.12)


def test_satterthwaite():
    assert satterthwaite((1.0, 1.0), (4.0, 4.0)) == 8
    assert satterthwaite((1.0, 0.0), (4.0, 9.0)) == 4
    assert satterthwaite((1e-200, 1e-200), (4.0, 4.0)) == pytest.approx(8)
    assert satterthwaite((0.0, 0.0), (4.0, 9.0)) == 4
    several = satterthwaite((np.array([0.0, 1.0, 2e-9]), np.array([0.0, 3.0, 0.0])), (4.0, 9.0))
    assert several == pytest.approx([4, 16 / (1 / 4 + 9 / 9), 4])
    assert satterthwaite((1.0, np.array([1.0, 0.0])), (4.0, 4.0)) == pytest.approx([8, 4])


def test_equal_numbers_have_no_width():
    for count in (1, 3, 7):
        flat = np.full((count, 3), 0.7)
        assert levels(flat).half_width() == pytest.approx(np.zeros(count))
        assert differences(flat).half_width() == pytest.approx(np.zeros((count, count)))
        assert levels_by_undefended(flat, np.full(10, 0.7)).half_width() == pytest.approx(np.zeros(count))


@pytest.mark.parametrize("estimate", [levels, differences, shrink])
def test_what_cannot_be_estimated_is_refused(estimate):
    with pytest.raises(UsageError, match=r"nan at settings 1, seeds 2"):
        estimate([[1, 2, 3], [1, 2, np.nan]])
    with pytest.raises(UsageError, match="at least 2 seeds, got 1"):
        estimate(np.zeros((6, 1)))
    with pytest.raises(ShapeError, match=r"expected \(settings, seeds\).*got shape \(3,\)"):
        estimate([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="empty"):
        estimate(np.zeros((0, 3)))


def test_one_setting_has_nothing_to_shrink_to():
    with pytest.raises(UsageError, match="one setting"):
        shrink([[1.0, 2.0]])
    with pytest.raises(UsageError, match="share"):
        share_variance(1.2, 10)
    with pytest.raises(ShapeError):
        delong_variance([0.1, 0.2], [1])


def test_wide_is_undecided():
    assert undecided(0.1, 0.61)
    assert not undecided(0.1, 0.59)

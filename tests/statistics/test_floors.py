"""Cross-fitted floors: unbiased on noise, plain twins, closed forms of what they replace."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.metrics.leakage import leak_auc
from tune_vfl.metrics.utility import auc
from tune_vfl.statistics import (
    auc_by_fold,
    center_null,
    cross_fitted,
    cross_fitted_auc,
    effective_dimension,
    folded_auc_null,
    nearest_center,
    permutation_p_value,
    stratified_folds,
)
from tune_vfl.statistics.floors import auc_pieces

SEEDS = 400
labels = st.lists(st.integers(0, 1), min_size=4, max_size=60).map(np.array)


def labeled(positives: int, negatives: int) -> np.ndarray:
    return np.r_[np.ones(positives, dtype=int), np.zeros(negatives, dtype=int)]


@settings(deadline=None)
@given(labels, st.integers(0, 9))
def test_folds_deal_each_class_evenly_and_again_the_same(y, seed):
    folds = stratified_folds(y, np.random.default_rng(seed))
    assert (folds == stratified_folds(y, np.random.default_rng(seed))).all()
    count = max(1, min(10, (y == 1).sum(), (y == 0).sum()))
    assert set(folds.tolist()) == set(range(count))
    for c in (0, 1):
        sizes = np.bincount(folds[y == c], minlength=count)
        assert sizes.max() - sizes.min() <= 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=2, max_size=30))
def test_pieces_average_to_the_auc_from_either_side(rows):
    scores, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    if 0 < y.sum() < len(y):
        below, above = auc_pieces(scores, y)
        assert below.mean() == pytest.approx(auc(scores, y))
        assert above.mean() == pytest.approx(auc(scores, y))


def test_a_cross_fitted_oracle_agrees_with_its_plain_twin():
    rng = np.random.default_rng(0)
    y, x = labeled(7, 40), rng.normal(size=(47, 3))
    x[y == 1] += 1.0
    folds = stratified_folds(y, rng)
    total = weights = 0.0
    for f in range(7):
        out = folds != f
        centers = [x[out & (y == c)].mean(0) for c in (0, 1)]
        right = {0: [], 1: []}
        for i in np.flatnonzero(~out):
            far = [np.linalg.norm(x[i] - c) for c in centers]
            right[y[i]].append(int(far[1] <= far[0]) == y[i])
        n1, n0 = len(right[1]), len(right[0])
        total += n1 * n0 / (n1 + n0) * (np.mean(right[1]) + np.mean(right[0])) / 2
        weights += n1 * n0 / (n1 + n0)
    assert cross_fitted(nearest_center(x, y), y, folds) == pytest.approx(total / weights)


@pytest.mark.parametrize(("positives", "negatives", "dimension"), [(147, 251, 64), (6, 294, 64)])
def test_oracles_are_unbiased_on_noise_where_those_in_sample_are_not(positives, negatives, dimension):
    y, fitted, in_sample = labeled(positives, negatives), [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(len(y), dimension))
        predict = nearest_center(x, y)
        fitted.append(cross_fitted(predict, y, stratified_folds(y, rng)))
        in_sample.append(auc(predict(np.ones(len(y), dtype=bool)), y))
    # The first 200 seeds alone lie 3.1 standard errors above 1/2 with 6 positives, by chance: seeds 200 to 3999 give
    # .5002 +- .0008.
    excess = np.array(fitted) - 0.5
    assert abs(excess.mean()) < 3 * excess.std() / math.sqrt(SEEDS)
    # The closed form is that of many rows; with 6 positives it is .01 too low.
    assert np.mean(in_sample) == pytest.approx(center_null(positives, negatives, dimension), abs=0.012)


@pytest.mark.parametrize(("positives", "negatives"), [(6, 294), (150, 150), (2, 30)])
def test_turned_aucs_are_unbiased_on_noise_where_folded_ones_are_not(positives, negatives):
    y, fitted, folded = labeled(positives, negatives), [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=len(y))
        fitted.append(cross_fitted_auc(scores, y, stratified_folds(y, rng)))
        folded.append(leak_auc(scores, y))
    excess = np.array(fitted) - 0.5
    assert abs(excess.mean()) < 3 * excess.std() / math.sqrt(SEEDS)
    spread = np.std(folded) / math.sqrt(SEEDS)
    assert abs(np.mean(folded) - folded_auc_null(positives, negatives)) < 3 * spread + 0.003


def test_a_clear_signal_is_found_from_either_end():
    rng = np.random.default_rng(1)
    y = labeled(40, 60)
    folds, scores = stratified_folds(y, rng), y + 0.01 * rng.normal(size=100)
    assert cross_fitted_auc(scores, y, folds) == 1.0
    assert cross_fitted_auc(-scores, y, folds) == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=4, max_size=40), st.integers(0, 5))
def test_a_turned_auc_is_a_share_and_knows_no_units(rows, seed):
    scores, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    folds = stratified_folds(y, np.random.default_rng(seed))
    value = cross_fitted_auc(scores, y, folds)
    if min(y.sum(), (1 - y).sum()) < 2:
        assert math.isnan(value)
    else:
        assert 0 <= value <= 1
        assert cross_fitted_auc(np.exp(scores), y, folds) == value


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=4, max_size=60), st.integers(0, 5))
def test_a_turned_auc_is_that_of_turning_fold_by_fold(rows, seed):
    scores, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    folds = stratified_folds(y, np.random.default_rng(seed))
    turned = scores.copy()
    for fold in np.unique(folds):
        others = folds != fold
        if others.any() and leak_auc(scores[others], y[others], flip=False) < 0.5:
            turned[~others] *= -1
    assert cross_fitted_auc(scores, y, folds) == pytest.approx(auc_by_fold(turned, y, folds), nan_ok=True)


def test_rows_that_are_not_counted_weigh_nothing():
    y = labeled(4, 4)
    folds = np.tile([0, 1, 0, 1], 2)
    scores = np.array([1.0, 1, 1, np.nan, 0, 0, 0, 0])
    assert auc_by_fold(scores, y, folds) == 1.0
    scores[[0, 2]] = 0.0  # the first fold knows nothing: 2 x 2 rows of it, 1 x 2 of the other
    assert auc_by_fold(scores, y, folds) == pytest.approx((1 * 0.5 + 2 / 3 * 1) / (1 + 2 / 3))
    assert math.isnan(auc_by_fold(np.full(8, np.nan), y, folds))


def test_what_is_undefined_is_nan_and_what_is_wrong_is_refused():
    rng = np.random.default_rng(0)
    lone = labeled(1, 9)
    assert set(stratified_folds(lone, rng)) == {0}
    assert math.isnan(cross_fitted_auc(np.arange(10.0), lone, stratified_folds(lone, rng)))
    assert math.isnan(cross_fitted(nearest_center(np.ones((10, 2)), lone), lone, np.zeros(10)))
    y = labeled(5, 5)
    assert math.isnan(cross_fitted_auc(np.full(10, np.nan), y, stratified_folds(y, rng)))
    assert cross_fitted_auc(np.ones(10), y, stratified_folds(y, rng)) == 0.5
    with pytest.raises(UsageError, match="0 and 1"):
        stratified_folds([0, 1, 2], rng)
    with pytest.raises(ShapeError, match=r"\(rows,\)"):
        stratified_folds(np.ones((2, 2)), rng)
    with pytest.raises(ShapeError, match=r"\(9,\), \(10,\) and \(10,\)"):
        cross_fitted_auc(np.ones(9), y, y)
    with pytest.raises(ShapeError):
        nearest_center(np.ones(10), y)


@pytest.mark.parametrize(
    ("value", "golden"),
    [
        (center_null(147, 251, 64), 0.6611),
        (center_null(6, 294, 64), 0.9505),
        (center_null(300, 2700, 16), 0.5484),
        (folded_auc_null(6, 294), 0.5951),
        (folded_auc_null(150, 150), 0.5266),
    ],
)
def test_the_golden_closed_forms(value, golden):
    assert value == pytest.approx(golden, abs=5e-5)


def test_the_effective_dimension():
    assert effective_dimension(np.vstack([np.eye(3), -np.eye(3)])) == pytest.approx(3)
    line = np.outer(np.arange(5.0), [1.0, 2.0, 3.0])
    assert effective_dimension(line) == pytest.approx(1)
    assert effective_dimension(line.T) == pytest.approx(1)
    with pytest.raises(UsageError, match="equal"):
        effective_dimension(np.ones((4, 2)))


def test_permutations_tell_signal_from_noise():
    rng = np.random.default_rng(2)
    y = labeled(30, 50)
    assert permutation_p_value(lambda v: leak_auc(y + 0.1 * np.arange(80) / 80, v), y, rng) == 0.01
    assert permutation_p_value(lambda _: 0.5, y, rng) == 1.0
    assert math.isnan(permutation_p_value(lambda _: math.nan, y, rng))
    draws = rng.normal(size=(200, 80))
    noise = [permutation_p_value(partial(leak_auc, scores), y, rng, permutations=19) for scores in draws]
    # On noise every multiple of 1/20 is as likely as any other.
    assert np.mean(np.array(noise) <= 0.25) == pytest.approx(0.25, abs=3 * math.sqrt(0.25 * 0.75 / 200))


def test_one_row_of_a_class_is_enough_for_a_closed_form():
    assert folded_auc_null(1, 1) == pytest.approx(0.5 + math.sqrt(2 / math.pi) * 0.5)
    assert center_null(1, 1, 2) == pytest.approx(0.841345, abs=1e-6)  # Phi(1)


def test_labels_of_one_class_leave_one_fold_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (np.ones(5), np.zeros(5), np.array([])):
            assert stratified_folds(y, np.random.default_rng(0)).tolist() == [0] * len(y)


def test_a_class_must_be_there():
    for null in (folded_auc_null, lambda a, b: center_null(a, b, 4)):
        with pytest.raises(UsageError, match="both classes"):
            null(0, 5)

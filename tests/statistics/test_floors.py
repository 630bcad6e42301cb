"""Cross-fitted floors: unbiased on noise, plain twins."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.metrics.leakage import leak_auc
from tune_vfl.metrics.utility import auc
from tune_vfl.statistics import auc_by_fold, cross_fitted_auc_of_each, stratified_folds
from tune_vfl.statistics.floors import auc_pieces

SEEDS = 400
labels = st.lists(st.integers(0, 1), min_size=4, max_size=60).map(np.array)


def labeled(positives: int, negatives: int) -> np.ndarray:
    return np.r_[np.ones(positives, dtype=int), np.zeros(negatives, dtype=int)]


def cross_fitted_auc(scores: np.ndarray, y: np.ndarray, folds: np.ndarray) -> float:
    (area,) = cross_fitted_auc_of_each([scores], y, folds)
    return area


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
    # The mean of a folded normal number, whose variance is that of an AUC of noise without ties.
    known = 0.5 + math.sqrt((positives + negatives + 1) / (6 * math.pi * positives * negatives))
    assert abs(np.mean(folded) - known) < 3 * np.std(folded) / math.sqrt(SEEDS) + 0.003


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
    y = labeled(5, 5)
    assert math.isnan(cross_fitted_auc(np.full(10, np.nan), y, stratified_folds(y, rng)))
    assert cross_fitted_auc(np.ones(10), y, stratified_folds(y, rng)) == 0.5
    with pytest.raises(UsageError, match="0 and 1"):
        stratified_folds([0, 1, 2], rng)
    with pytest.raises(ShapeError, match=r"\(rows,\)"):
        stratified_folds(np.ones((2, 2)), rng)
    with pytest.raises(ShapeError, match=r"\(9,\), \(10,\) and \(10,\)"):
        cross_fitted_auc(np.ones(9), y, y)


def test_labels_of_one_class_leave_one_fold_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (np.ones(5), np.zeros(5), np.array([])):
            assert stratified_folds(y, np.random.default_rng(0)).tolist() == [0] * len(y)

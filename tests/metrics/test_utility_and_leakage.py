"""Utility and leakage metrics: closed forms, naive twins, scikit-learn beside them, and what is undefined."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score, top_k_accuracy_score

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.metrics import leakage
from tune_vfl.metrics.utility import auc, utility


def naive_auc(scores, y):
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[y == 1] for n in scores[y == 0]]
    return sum(pairs) / len(pairs) if pairs else math.nan


binary_rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=30)


@given(binary_rows)
def test_auc_equals_counting_pairs(rows):
    scores, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    assert auc(scores, y) == pytest.approx(naive_auc(scores, y), nan_ok=True)


@given(binary_rows)
def test_leak_auc_does_not_care_about_orientation_and_monotone_maps(rows):
    scores, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    one = leakage.leak_auc(scores, y)
    assert leakage.leak_auc(-scores, y) == pytest.approx(one, nan_ok=True)
    assert leakage.leak_auc(np.exp(scores), y) == pytest.approx(one, nan_ok=True)
    assert leakage.leak_auc(scores, 1 - y) == pytest.approx(one, nan_ok=True)


@pytest.fixture(params=[2, 3, 8])
def scored(request):
    rng = np.random.default_rng(request.param)
    y = np.concatenate([np.arange(request.param), rng.integers(0, request.param, 200)])
    scores = rng.random((len(y), request.param)) + 0.3 * np.eye(request.param)[y]
    return scores / scores.sum(1, keepdims=True), y


def test_utility_agrees_with_scikit_learn(scored):
    scores, y = scored
    classes, predicted = scores.shape[1], scores.argmax(1)
    column = scores[:, 1] if classes == 2 else scores
    assert utility("auc", scores, y) == pytest.approx(roc_auc_score(y, column, multi_class="ovr"))
    assert utility("accuracy", scores, y) == pytest.approx((predicted == y).mean())
    assert utility("balanced_accuracy", scores, y) == pytest.approx(balanced_accuracy_score(y, predicted))
    assert utility("f1", scores, y) == pytest.approx(
        f1_score(y, predicted, average="binary" if classes == 2 else "macro")
    )
    expected = top_k_accuracy_score(y, scores, k=5) if classes > 5 else 1.0
    assert utility("top5", scores, y) == pytest.approx(expected)


def test_hard_scores_have_the_balanced_accuracy_as_auc():
    rng = np.random.default_rng(0)
    y, hard = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    recalls = [(hard[y == c] == c).mean() for c in (0, 1)]
    assert leakage.leak_auc(hard.astype(float), y, flip=False) == pytest.approx(np.mean(recalls))


def test_auc_of_one_logit_and_of_two_classes_agree():
    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 2, 100), rng.random(100)
    assert utility("auc", np.stack([1 - p, p], 1), y) == pytest.approx(auc(p, y))


def test_small_probabilities_stay_apart_in_single_precision():
    p = np.array([1e-9, 1e-10, 1 - 1e-7], dtype=np.float32)
    both = np.stack([1 - p, p], 1)
    assert utility("auc", both, np.array([1, 0, 1])) == 1.0
    assert leakage.leak_auc(both[:2], np.array([1, 0]), flip=False) == 1.0


def test_batch_aggregates_drop_batches_of_one_class():
    y = np.array([0, 1, 0, 1, 1, 1])
    scores = np.array([0.0, 1.0, 1.0, 0.0, 5.0, 6.0])
    batches = [(0, 2), (2, 4), (4, 6)]
    assert leakage.leak_auc(scores, y, flip=False, aggregate="batch_mean", batches=batches) == 0.5
    assert leakage.leak_auc(scores, y, aggregate="batch_mean", batches=batches) == 1.0
    assert leakage.leak_auc(scores, y, flip=False, aggregate="batch_q95", batches=batches) == pytest.approx(0.95)
    assert math.isnan(leakage.leak_auc(scores, y, aggregate="batch_mean", batches=[(4, 6)]))
    with pytest.raises(UsageError, match="batches"):
        leakage.leak_auc(scores, y, aggregate="batch_mean")


def test_undefined_is_nan_and_never_a_number():
    ones, scores = np.ones(4, dtype=int), np.arange(4.0)
    assert math.isnan(leakage.leak_auc(scores, ones))
    assert math.isnan(leakage.leak_auc(np.array([1.0, np.nan]), np.array([0, 1])))
    assert math.isnan(utility("accuracy", np.full((2, 2), np.nan), np.array([0, 1])))
    nobody, nothing = np.zeros((0, 3)), np.zeros(0, dtype=int)
    for metric in ("auc", "accuracy", "balanced_accuracy", "f1", "top5"):
        assert math.isnan(utility(metric, nobody, nothing))
    assert math.isnan(leakage.top1(nobody, nothing))
    assert math.isnan(leakage.advantage(math.nan, 0.5))


@pytest.mark.parametrize("metric", ["auc", "accuracy", "balanced_accuracy", "f1", "top5"])
@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_score_that_is_not_finite_leaves_a_utility_undefined(metric, classes, bad):
    y = np.arange(3 * classes) % classes
    scores = np.eye(classes)[y]
    assert utility(metric, scores, y) == 1.0
    scores[4, 1] = bad
    assert math.isnan(utility(metric, scores, y))


def test_rows_without_an_answer_are_wrong_for_every_label():
    scores = np.array([[0.0, 0.0, 0.0], [np.nan, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert leakage.predictions(scores).tolist() == [-1, -1, 1]
    for label in range(3):
        assert leakage.top1(scores[:2], np.full(2, label)) == 0.0
    assert leakage.top1(scores, np.array([0, 1, 1])) == pytest.approx(1 / 3)


def test_binary_scores_predict_by_the_middle_of_their_range_unless_they_are_hard():
    assert leakage.predictions(np.array([3.0, 5.0, 9.0])).tolist() == [0, 0, 1]
    assert leakage.predictions(np.array([1.0, 1.0])).tolist() == [1, 1]
    assert leakage.predictions(np.array([True, False])).tolist() == [1, 0]


def test_top5_counts_ties_like_argmax():
    scores = np.tile(np.r_[1.0, np.zeros(7)], (8, 1))
    assert leakage.top5(scores, np.arange(8)) == 5 / 8
    assert leakage.top5(np.zeros((3, 8)), np.arange(3)) == 0.0  # rows that predict nothing
    assert leakage.top5(np.vstack([scores[:2], np.zeros((2, 8))]), np.array([0, 7, 0, 1])) == 1 / 4
    assert math.isnan(leakage.top5(np.zeros((0, 8)), np.zeros(0, dtype=int)))


def test_f1_of_constants():
    y = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    assert leakage.f1(np.eye(2)[np.ones(10, dtype=int)], y) == pytest.approx(f1_score(y, np.ones(10, dtype=int)))
    assert leakage.f1(np.eye(2)[np.zeros(10, dtype=int)], y) == 0.0


@given(st.floats(0, 1), st.floats(0, 1))
def test_advantage_is_zero_at_the_floor_and_one_at_certainty(success, floor):
    value = leakage.advantage(success, floor)
    assert 0 <= value <= 1
    assert leakage.advantage(floor, floor) == 0
    assert leakage.advantage(0.25, 0.5, clip=False) == -0.5
    if floor < 1:
        assert leakage.advantage(1.0, floor) == pytest.approx(1.0)
        assert (value > 0) <= (success > floor)


def test_wrong_shapes_and_names_are_refused():
    with pytest.raises(UsageError, match="unknown metric"):
        utility("mse", np.zeros((1, 2)), np.zeros(1, dtype=int))
    with pytest.raises(ShapeError, match="shape"):
        utility("auc", np.zeros(3), np.zeros(3, dtype=int))
    with pytest.raises(ShapeError, match="two classes"):
        leakage.leak_auc(np.zeros((3, 4)), np.zeros(3, dtype=int))

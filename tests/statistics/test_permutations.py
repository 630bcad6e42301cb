"""All permutations at once give what one at a time do."""

import numpy as np
import pytest
from scipy.stats import kstest

from tune_vfl.metrics.leakage import leak_auc
from tune_vfl.statistics import labelings
from tune_vfl.statistics.floors import cross_fitted_auc_of_each, stratified_folds
from tune_vfl.statistics.permutations import (
    p_value,
    permutations_of,
    permuted_aucs,
    permuted_cross_fitted_aucs,
    permuted_hits,
)


@pytest.fixture
def rows():
    """Sixty rows, a third of them positive, with tied scores that say a little of the labels."""
    rng = np.random.default_rng(3)
    y = (np.arange(60) % 3 == 0).astype(np.int64)
    return np.round(rng.normal(size=60) + 0.4 * y, 1), y


def test_orders_are_permutations_and_a_seed_s_own():
    orders = permutations_of(7, 5)
    assert orders.shape == (99, 7)
    assert (np.sort(orders, axis=1) == np.arange(7)).all()
    assert len({tuple(o) for o in orders.tolist()}) > 90
    assert (permutations_of(7, 6) != orders).any()


def test_aucs_are_those_of_each_order_by_itself(rows):
    scores, y = rows
    orders = permutations_of(60, 0)
    both = permuted_aucs([scores, -scores], y, orders)
    assert both[0] == pytest.approx([leak_auc(scores, y[o], flip=False) for o in orders])
    assert both[1] == pytest.approx(1 - both[0])
    identity = np.arange(60)[None]
    assert permuted_aucs([scores], y, identity)[0, 0] == pytest.approx(leak_auc(scores, y, flip=False))


def test_cross_fitted_aucs_are_those_of_each_order_by_itself(rows):
    scores, y = rows
    orders = permutations_of(60, 0)
    folds = stratified_folds(y, np.random.default_rng(1))
    several = [scores, np.random.default_rng(2).normal(size=60)]
    found = permuted_cross_fitted_aucs(several, y, folds, orders)
    for one, mine in zip(several, found, strict=True):
        assert mine.tolist() == [cross_fitted_auc_of_each([one], y[o], folds)[0] for o in orders]


def test_labelings_that_are_too_many_to_be_kept_as_numbers_give_the_same(rows, monkeypatch):
    scores, y = rows
    orders, folds = permutations_of(60, 0), stratified_folds(y, np.random.default_rng(1))
    both = [scores, np.round(scores)]
    at_once = permuted_aucs(both, y, orders), permuted_cross_fitted_aucs([scores], y, folds, orders)
    monkeypatch.setattr(labelings, "_NUMBERS_AT_ONCE", 7 * 60)
    monkeypatch.setattr(labelings, "_RANKED_AT_ONCE", 60)
    assert (permuted_aucs(both, y, orders) == at_once[0]).all()
    assert (permuted_cross_fitted_aucs([scores], y, folds, orders) == at_once[1]).all()


def test_hits_are_the_share_of_rows_whose_label_is_among_the_answers():
    y, orders = np.array([0, 1, 2, 3]), np.array([[0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0]])
    assert permuted_hits([[0], [1], [2], [-1]], y, orders).tolist() == [0.75, 0.25, 0.0]
    assert permuted_hits([[0, 1], [0, 1], [2, 3], [2, 3]], y, orders).tolist() == [1.0, 1.0, 0.0]


def test_the_p_value_of_one_variant_is_that_of_the_plain_test(rows):
    scores, y = rows
    orders, found = permutations_of(60, 4), leak_auc(scores, y, flip=False)
    as_large = sum(leak_auc(scores, y[order], flip=False) >= found - 1e-12 for order in orders)
    assert p_value([found], permuted_aucs([scores], y, orders)) == (1 + as_large) / (1 + len(orders))


def test_the_best_of_many_variants_is_compared_with_the_best_of_as_many():
    null = np.linspace(0.4, 0.6, 99)
    assert p_value([0.59], [null]) == pytest.approx(0.06)
    # Five variants that say nothing: by each one's own permutations the best of them would look like a find.
    rng = np.random.default_rng(0)
    many = [rng.permutation(null) for _ in range(5)]
    assert p_value([0.5, 0.59, 0.4, 0.4, 0.4], many) > 0.15
    assert p_value([0.7], [null]) == 0.01
    assert p_value([0.5], [np.full(99, np.nan)]) == 1.0


def test_on_noise_p_values_are_uniform():
    rng = np.random.default_rng(11)
    y = (np.arange(80) % 4 == 0).astype(np.int64)
    found = []
    for seed in range(300):
        scores = rng.normal(size=(3, 80))
        orders = permutations_of(80, seed)
        best = [leak_auc(s, y, flip=False) for s in scores]
        found.append(p_value(best, permuted_aucs(scores, y, orders)))
    assert kstest(found, "uniform").pvalue > 0.01

"""Bins and trees: closed forms, a naive twin that tries every split of every node, scikit-learn's trees."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.trees.bins import ColumnBins
from tune_vfl.trees.boosting import OWN, BoostedRows, Boosting
from tune_vfl.trees.growing import Growth, grow

Array = np.ndarray[Any, Any]


def everywhere(columns: int) -> Any:
    return lambda level, place: np.ones((2**level, columns), dtype=bool)


def of_labels(y: Array) -> Array:
    """Derivatives of the cross-entropy at scores of 0."""
    return np.stack([0.5 - y, np.full(len(y), 0.25)])


def logistic(y: Array) -> Any:
    def derivatives(scores: Array) -> tuple[Array, Array]:
        p = 1 / (1 + np.exp(-scores))
        return p - y[:, None], p * (1 - p)

    return derivatives


def boosted(x: Array, y: Array, rules: Boosting, rounds: int | None = None) -> BoostedRows:
    made = BoostedRows([(OWN, x)], np.eye(2)[y], rules, logistic(y), np.zeros)
    for _ in range(rounds or rules.trees):
        made.grow_round()
    return made


def test_values_between_two_cuts_share_a_bin_and_one_at_a_cut_is_below_it() -> None:
    x = np.array([[0.0], [1.0], [1.0], [4.0]])
    made = ColumnBins.of(x, 8)
    assert made.binned(np.array([[-5.0], [0.5], [0.51], [2.5], [2.6], [99.0]])).tolist() == [[0, 0, 1, 1, 2, 2]]
    assert made.binned(np.zeros((0, 1))).shape == (1, 0)


def test_a_column_of_many_values_gets_bins_of_equally_many_rows_and_a_constant_one_gets_one() -> None:
    x = np.stack([np.random.default_rng(0).permutation(1000.0 ** np.linspace(0, 2, 1000)), np.ones(1000)], 1)
    bins = ColumnBins.of(x, 10).binned(x)
    assert np.bincount(bins[0]).tolist() == [100] * 10
    assert set(bins[1]) == {0}


def test_a_tree_on_one_column_splits_where_the_gain_says() -> None:
    """Gains of the cuts of 1 0 0 1 1 1 1 1 by hand: G^2 / H on both sides, less that of the whole."""
    y = np.array([1, 0, 0, 1, 1, 1, 1, 1.0])
    derivatives, bins = of_labels(y), np.arange(8, dtype=np.uint8)[None]
    tree = grow(bins, derivatives, Growth(1, 0.0, 0.0), everywhere(1))

    def gain(cut: int) -> float:
        left, right = derivatives[:, : cut + 1].sum(1), derivatives[:, cut + 1 :].sum(1)
        return float(left[0] ** 2 / left[1] + right[0] ** 2 / right[1] - 2.0**2 / 2.0)

    assert [gain(cut) for cut in range(7)] == pytest.approx([2 / 7, 2 / 3, 10 / 3, 2, 6 / 5, 2 / 3, 2 / 7])
    assert tree.cut.tolist() == [2]
    assert tree.weight.tolist() == pytest.approx([-0.5 / 0.75, 2.5 / 1.25])
    assert tree.leaf.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def test_ridge_and_the_least_weight_of_a_child_hold() -> None:
    y, bins = np.array([1, 0, 0, 1, 1, 1, 1, 1.0]), np.arange(8, dtype=np.uint8)[None]
    assert grow(bins, of_labels(y), Growth(1, 1.0, 0.0), everywhere(1)).weight.tolist() == pytest.approx(
        [-0.5 / 1.75, 2.5 / 2.25]
    )
    assert grow(bins, of_labels(y), Growth(1, 0.0, 1.0), everywhere(1)).cut[0] == 3
    assert grow(bins, of_labels(y), Growth(1, 0.0, 1.1), everywhere(1)).column[0] == -1


def naive(bins: Array, derivatives: Array, rules: Growth, rows: Array) -> list[list[int]]:
    """The rows of each leaf, node by node: every column, every cut."""

    def score(of: Array) -> float:
        g, h = derivatives[:, of].sum(1)
        return float(g * g / (h + rules.l2)) if h + rules.l2 > 1e-12 else 0.0

    best, split = 1e-10, None
    if rules.depth:
        for column, cut in itertools.product(range(len(bins)), range(int(bins.max()))):
            left = rows[bins[column, rows] <= cut]
            right = np.setdiff1d(rows, left)
            if min(derivatives[1, left].sum(), derivatives[1, right].sum()) < rules.min_child_weight:
                continue
            found = score(left) + score(right) - score(rows)
            if found > best + 1e-9:
                best, split = found, (left, right)
    if split is None:
        return [rows.tolist()]
    less = Growth(rules.depth - 1, rules.l2, rules.min_child_weight)
    return [leaf for side in split for leaf in naive(bins, derivatives, less, side)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.7]), st.sampled_from([0.0, 1.0]))
def test_all_nodes_of_a_level_at_once_are_the_nodes_one_by_one(seed: int, depth: int, l2: float, least: float) -> None:
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, 6, (3, 60)).astype(np.uint8)
    derivatives = np.stack([rng.normal(size=60), rng.uniform(0.1, 0.3, 60)])  # no two splits have the same gain
    rules = Growth(depth, l2, least)
    tree = grow(bins, derivatives, rules, everywhere(3))
    parts = {tuple(np.flatnonzero(tree.leaf == leaf)) for leaf in np.unique(tree.leaf)}
    assert parts == {tuple(sorted(leaf)) for leaf in naive(bins, derivatives, rules, np.arange(60))}
    assert tree.leaves_of(bins).tolist() == tree.leaf.tolist()


@pytest.mark.parametrize("rounds", [1, 20])
def test_trees_are_scikit_learns_at_equal_settings(rounds: int) -> None:
    """Its gradients are in single precision, so that scores agree to that, and ties between columns must not arise."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 5))
    y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * rng.normal(size=3000) > 0).astype(int)
    shared = {"learning_rate": 0.3, "max_iter": rounds, "max_depth": 4, "l2_regularization": 1.0, "max_bins": 32}
    theirs = ensemble.HistGradientBoostingClassifier(
        **shared, max_leaf_nodes=None, min_samples_leaf=1, early_stopping=False
    ).fit(x, y)
    rules = Boosting(4, 1.0, 1e-3, trees=rounds, learning_rate=0.3, bins=32)
    ours = boosted(x, y, rules)
    assert ours.scores[:, 0] == pytest.approx(theirs.decision_function(x), abs=1e-5)
    fresh = rng.normal(size=(500, 5))
    assert ours.scores_of([(OWN, fresh)])[:, 0] == pytest.approx(theirs.decision_function(fresh), abs=1e-5)

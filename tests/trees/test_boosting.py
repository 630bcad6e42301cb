"""Boosting over several parties: lossless, levels that refine each other, and what each party is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.trees.test_growing import Array, boosted, logistic
from tune_vfl.trees.boosting import OWN, BoostedRows, Boosting

RULES = Boosting(3, 1.0, 0.0, trees=4, learning_rate=0.3)


def table(rows: int = 300) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 6))
    return x, (x[:, 0] - x[:, 3] * x[:, 4] + rng.normal(size=rows) > 0).astype(int)


def parted(rules: Boosting = RULES, at_home: Any = None, seed: int = 0) -> BoostedRows:
    """The label party has two columns, two passive parties two each."""
    x, y = table()
    draws = np.random.default_rng(seed)
    kept = {} if at_home is None else {"at_home": at_home}
    held = [(0, x[:, 2:4]), (1, x[:, 4:]), (OWN, x[:, :2])]
    made = BoostedRows(held, np.eye(2)[y], rules, logistic(y), draws.random, **kept)
    for _ in range(rules.trees):
        made.grow_round()
    return made


def test_columns_at_three_parties_give_the_trees_of_one_that_has_all() -> None:
    whole, apart = boosted(*table(), RULES), parted()
    assert np.array_equal(whole.leaves(), apart.leaves())
    assert np.array_equal(whole.scores, apart.scores)
    assert apart.splits.sum() == sum((t.column >= 0).sum() for trees in whole.trees for t in trees)
    assert (apart.splits > 0).all()


def test_scores_of_rows_are_the_same_told_of_as_training_rows_or_as_others() -> None:
    made, (x, _) = parted(), table()
    again = made.scores_of([(OWN, x[:, :2]), (1, x[:, 4:]), (0, x[:, 2:4])])
    assert again == pytest.approx(made.scores, abs=1e-12)


def test_undefended_every_node_is_told() -> None:
    assert all(told.all() for told in parted().told)


def test_of_leaves_that_are_kept_a_party_knows_those_of_its_own_last_splits() -> None:
    made = parted(Boosting(3, 1.0, 0.0, trees=4, learning_rate=0.3, tells_leaves=False))
    for (tree,), told in zip(made.trees, made.told, strict=True):
        assert told[:, :7].all()
        last = tree.column[3:]
        for party in (0, 1):
            own = (last >= 0) & (made.owner[last] == party)
            unsplit = last < 0  # their rows are those of a node that was told
            assert told[party, 7::2].tolist() == (own | unsplit).tolist()
            assert told[party, 8::2].tolist() == own.tolist()


def test_what_is_kept_at_home_is_split_by_the_label_party_alone_and_told_to_nobody() -> None:
    made = parted(at_home=lambda round_, shares: np.full(len(shares), round_ < 2))
    for k, ((tree,), told) in enumerate(zip(made.trees, made.told, strict=True)):
        owners = set(made.owner[tree.column[tree.column >= 0]])
        assert (owners == {OWN}) == (k < 2)
        assert told.any() == (k >= 2)


def test_below_a_node_that_is_kept_everything_is_kept() -> None:
    asked: list[tuple[int, int]] = []

    def first_of_the_second_level(round_: int, shares: Array) -> Array:
        asked.append((round_, len(shares)))
        return (len(shares) == 2) & (np.arange(len(shares)) == 0)

    made = parted(at_home=first_of_the_second_level)
    assert asked[:4] == [(0, 1), (0, 2), (0, 4), (0, 8)]
    for (tree,), told in zip(made.trees, made.told, strict=True):
        owner = np.where(tree.column >= 0, made.owner[tree.column], OWN)
        below = [3, 4, 7, 8, 9, 10]
        assert (owner[[1, 3, 4]] == OWN).all()
        assert not told[:, below].any()
        assert told[:, [0, 2, 5, 6]].all()
        assert told[:, 1].tolist() == [owner[0] == party for party in (0, 1)]  # whoever split its parent


def test_shares_of_classes_in_nodes_add_up_and_are_those_of_their_rows() -> None:
    _, y = table()
    seen: list[Array] = []
    made = parted(at_home=lambda round_, shares: seen.append(shares) or np.zeros(len(shares), dtype=bool))
    rows = np.bincount(made.leaves()[0], minlength=8)
    of_one = np.bincount(made.leaves()[0], y, minlength=8)
    filled = rows > 0
    assert seen[3][filled, 1] == pytest.approx(of_one[filled] / rows[filled])
    assert not seen[3][~filled].any()


def test_samples_follow_the_draws_and_rows_that_were_not_drawn_pass_through() -> None:
    rules = Boosting(3, 1.0, 0.0, trees=4, learning_rate=0.3, rows=0.5, columns=0.5)
    one, same, other = parted(rules), parted(rules), parted(rules, seed=1)
    assert np.array_equal(one.leaves(), same.leaves())
    assert not np.array_equal(one.leaves(), other.leaves())
    assert all(len(set(tree.column[tree.column >= 0])) <= 3 for trees in one.trees for tree in trees)
    assert one.leaves().shape == (4, 300)


def test_more_classes_grow_a_tree_each() -> None:
    x, _ = table()
    y = np.digitize(x[:, 0] + x[:, 2], [-0.7, 0.7])

    def softmax(scores: Array) -> tuple[Array, Array]:
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        return p - np.eye(3)[y], p * (1 - p)

    rules = Boosting(3, 1.0, 0.0, trees=15, learning_rate=0.3)
    made = BoostedRows([(0, x[:, :2]), (OWN, x[:, 2:])], np.eye(3)[y], rules, softmax, np.zeros)
    for _ in range(15):
        made.grow_round()
    assert (made.leaves().shape, len(made.told), made.scores.shape) == ((45, 300), 45, (300, 3))
    assert (made.scores.argmax(1) == y).mean() > 0.95


def test_golden_scores() -> None:
    """Numbers of the day that these trees agreed with scikit-learn's: they may not move unseen."""
    assert parted().scores[:5, 0].tolist() == pytest.approx(
        [0.807077, -0.399357, -0.559613, -1.071683, -1.637726], abs=1e-6
    )


def test_no_told_node_is_one_that_may_not_be_and_a_rule_that_forbids_none_changes_nothing() -> None:
    """Nodes of 40 rows or fewer may not be told: others' columns make none, the label party's stay at home."""
    (x, y), made = table(), []
    held = [(0, x[:, 2:4]), (1, x[:, 4:]), (OWN, x[:, :2])]
    for least in (41, 0):
        of = BoostedRows(
            held,
            np.eye(2)[y],
            RULES,
            logistic(y),
            np.random.default_rng(0).random,
            tellable=lambda n, k=least: n.sum(-1) >= k,
        )
        for _ in range(RULES.trees):
            of.grow_round()
        made.append(of)
    bound, free = made
    assert np.array_equal(free.scores, parted().scores)
    assert not np.array_equal(bound.scores, free.scores)
    for (tree,), told in zip(bound.trees, bound.told, strict=True):
        for node in range(1, 15):
            level = (node + 1).bit_length() - 1
            size = ((tree.leaf >> (3 - level)) == node - 2**level + 1).sum()
            unsplit = tree.column[(node - 1) // 2] < 0
            assert size >= 41 or unsplit or not told[:, node].any()
        assert not told.all()

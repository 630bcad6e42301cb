"""Attacks on trees: what shared nodes say in closed form, and what partitions hold of nodes that were not told."""

from __future__ import annotations

import math

import pytest
import torch

from tune_vfl.attacks.base import ATTACKS, build_attack
from tune_vfl.attacks.parts.communities import communities
from tune_vfl.attacks.parts.shared_leaves import believed, by_beliefs, by_known, directions, taught
from tune_vfl.errors import SpecError
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.protocol.view import Auxiliary
from tune_vfl.seeds import Stream
from tune_vfl.spec import Named
from tune_vfl.testing.attacks import run_on, success_of
from tune_vfl.testing.views import make_world

TREES = ("first_trees", "id2graph", "leaf_cluster", "tree_completion")
KNOWN = Auxiliary(torch.tensor([0, 4]), torch.tensor([0, 1]))
ONE_SPLIT = Partitions(torch.tensor([[0, 0, 0, 1, 1, 1]]), torch.ones(1, 3, dtype=torch.bool))


def test_a_group_is_the_deepest_node_that_was_told_and_the_rest_of_its_parent_shows() -> None:
    leaves = torch.arange(4).repeat(1, 2)
    told = torch.ones(1, 7, dtype=torch.bool)
    assert Partitions(leaves, told).groups.tolist() == [[3, 4, 5, 6] * 2]
    told[0, [3, 5, 6]] = False
    assert Partitions(leaves, told).groups.tolist() == [[1, 4, 2, 2] * 2]
    told[0, 1:] = False
    assert Partitions(leaves, told).groups.tolist() == [[0, 0, 0, 0] * 2]
    assert not Partitions(leaves, told).parting.any()


def test_first_trees_are_the_first_that_part_rows_and_missing_ones_part_none() -> None:
    leaves = torch.tensor([[0, 1, 1], [0, 0, 1], [0, 1, 0]])
    told = torch.tensor([[True, False, False], [True, True, True], [True, True, True]])
    made = Partitions(leaves, told)
    assert made.first(1).tolist() == [[1, 1, 2]]
    assert made.first(4).tolist() == [[1, 1, 2], [1, 2, 1], [0, 0, 0], [0, 0, 0]]


def test_parties_together_know_what_any_of_them_was_told() -> None:
    one, other = (Partitions(torch.tensor([[0, 1]]), torch.tensor([[True, k == 0, k == 1]])) for k in (0, 1))
    assert Partitions.joined([one, other]).told.tolist() == [[True, True, True]]


def test_a_node_speaks_for_the_class_of_its_known_rows_and_a_known_rows_own_label_does_not_count() -> None:
    """One known row a class, a row of each class for free: twice as likely where the known row is."""
    said = by_known(ONE_SPLIT.groups, KNOWN, 2)
    ratio = (said[:, 1] - said[:, 0]).tolist()
    assert ratio[1:4] == pytest.approx([-math.log(2), -math.log(2), math.log(2)])
    # Without itself the first row's class has no known row at all, and the other one's is elsewhere.
    assert ratio[0] == pytest.approx(math.log(1 / 3) - math.log(1 / 2))


def test_beliefs_of_the_other_rows_in_a_node_are_averaged() -> None:
    beliefs = torch.tensor([[1.0, 0], [0.8, 0.2], [0.6, 0.4], [0.5, 0.5], [0, 1.0], [0.1, 0.9]])
    said = by_beliefs(ONE_SPLIT.groups, beliefs)
    mean = 0.5  # of each class over all rows, which counts as one row more
    assert (said[0, 1] - said[0, 0]).item() == pytest.approx(math.log((0.2 + 0.4 + mean) / (0.8 + 0.6 + mean)))
    assert (said[4, 1] - said[4, 0]).item() == pytest.approx(math.log((0.5 + 0.9 + mean) / (0.5 + 0.1 + mean)))


def test_a_tree_that_parts_no_rows_says_nothing() -> None:
    nothing = torch.zeros(3, 6, dtype=torch.long)
    assert not by_known(nothing, KNOWN, 2).any()
    assert not by_beliefs(nothing, torch.rand(6, 2).softmax(-1)).any()


def test_beliefs_have_the_classes_shares_on_the_whole_and_the_order_of_the_logits() -> None:
    logits = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    shares = torch.tensor([0.7, 0.25, 0.05])
    made = believed(logits, shares)
    torch.testing.assert_close(made.mean(0), shares, rtol=0, atol=1e-3)
    assert torch.equal((made[:, 1] / made[:, 0]).argsort(), (logits[:, 1] - logits[:, 0]).argsort())
    assert torch.equal(taught(made, KNOWN)[[0, 4]], torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]))
    torch.testing.assert_close(believed(torch.zeros(6, 3), shares), shares.expand(6, 3))


def test_main_directions_are_those_of_the_written_out_entries() -> None:
    g = torch.Generator().manual_seed(0)
    groups = torch.randint(0, 3, (4, 200), generator=g)
    entries = torch.nn.functional.one_hot(groups, 3).movedim(0, 1).flatten(1).double()
    entries = (entries - entries.mean(0)) / entries.std(0, correction=0)
    found = directions(groups, 3, Stream(0, "start"), count=32).double()
    torch.testing.assert_close(found @ found.mT, entries @ entries.mT, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", TREES)
def test_a_tree_with_a_perfect_split_gives_every_label_away(name: str) -> None:
    world = make_world(3, width=1, num_classes=2)
    told = Partitions(world.y_train.unsqueeze(0), torch.ones(1, 3, dtype=torch.bool))
    attack = build_attack(Named(name=name))
    answers = attack.run(world.view(attack).holding(partitions=told))
    assert max(success_of(answer, world) for answer in answers.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", TREES)
def test_where_nothing_was_told_nothing_but_own_columns_is_found(name: str) -> None:
    world = make_world(3, separable=False, rows=2000)
    told = Partitions(torch.zeros(5, 2000, dtype=torch.long), torch.zeros(5, 3, dtype=torch.bool))
    attack = build_attack(Named(name=name))
    for answer in attack.run(world.view(attack).holding(partitions=told)).values():
        assert success_of(answer, world) == pytest.approx(0.5, abs=0.06)


def test_first_trees_has_a_variant_a_number_and_refuses_others() -> None:
    assert set(run_on(ATTACKS["first_trees"], make_world(0))) == {"first_1", "first_2", "first_5", "first_10"}
    with pytest.raises(SpecError, match="each at most once and at least 1"):
        build_attack(Named(name="first_trees", trees=[0, 2]))


def modularity(groups: torch.Tensor, weights: torch.Tensor, at: torch.Tensor) -> float:
    """Modularity of communities in the graph of shared nodes, written out."""
    edges = sum(w * (node == node[:, None]).double() for w, node in zip(weights, groups, strict=True))
    degrees, together = edges.sum(0), at == at[:, None]
    return float(((edges - degrees * degrees[:, None] / degrees.sum()) * together).sum() / degrees.sum())


def test_communities_are_those_that_were_planted_where_trees_say_so_with_errors() -> None:
    g = torch.Generator().manual_seed(0)
    planted = torch.arange(240) % 3
    wrong = torch.rand(8, 240, generator=g) < 0.15
    groups = torch.where(wrong, torch.randint(0, 3, (8, 240), generator=g), planted)
    found = communities(groups, torch.ones(8), Stream(0, "moving"))
    assert found.unique().tolist() == [0, 1, 2]
    surely = (groups == planted).sum(0) > 4
    assert surely.sum() > 230
    of_each = torch.stack([torch.bincount(found[surely & (planted == k)], minlength=3) for k in range(3)])
    assert of_each.amax(1).sum() == surely.sum()


@pytest.mark.parametrize("seed", range(3))
def test_moving_and_joining_raise_modularity_to_that_of_what_was_planted(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    planted = torch.randint(0, 3, (120,), generator=g)
    noise = torch.randint(0, 8, (6, 120), generator=g)
    groups = torch.where(torch.rand(6, 120, generator=g) < 0.4, noise, planted)
    weights = 0.8 ** torch.arange(6)
    found = communities(groups, weights, Stream(seed, "moving"))
    assert modularity(groups, weights, found) > modularity(groups, weights, groups[0])
    assert modularity(groups, weights, found) >= modularity(groups, weights, planted) - 0.02

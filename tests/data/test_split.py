"""Splits, standardization and auxiliary rows: what must hold for every data set, seed and partition."""

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Columns, Dataset, Recipe, Split
from tune_vfl.data.partition import by_share, image_parties, matrix_parties
from tune_vfl.data.split import auxiliary_rows, held_out_sizes, split, stacked_split, standardized
from tune_vfl.errors import DataError
from tune_vfl.spec import Named, Training

RECIPE = Recipe(model=Named(name="mlp"), training=Training())
quick = settings(max_examples=40, deadline=None)


def made(counts, columns=4, share=0.3, seed=0, test_rows=None) -> Dataset:
    rng = np.random.default_rng(seed)
    y = torch.tensor(rng.permutation(np.repeat(np.arange(len(counts)), counts)))
    x = torch.tensor(rng.normal(3, 5, (len(y), columns)), dtype=torch.float32)
    passive, active = matrix_parties(x, [f"c{k}" for k in range(columns)], 0.5, 1, "made")
    names = tuple(str(k) for k in range(len(counts)))
    return Dataset("made", passive, active, y, names, "accuracy", RECIPE, "f", test_rows=test_rows, test_share=share)


class_counts = st.lists(st.integers(2, 60), min_size=2, max_size=6)


@pytest.mark.parametrize("official", [True, False])
def test_seeds_of_the_same_rows_share_them_and_have_what_each_has_alone(official):
    data = made((30, 40), test_rows=torch.tensor([3, 5, 8, 40]) if official else None)
    stacked = stacked_split(data, (0, 1, 2))
    for place, seed in enumerate((0, 1, 2)):
        alone, one = split(data, seed), stacked.seed(place)
        for part in ("train", "test"):
            assert all(x.equal(y) for x, y in zip(one.features(part), alone.features(part), strict=True))
        assert one.y_train.equal(alone.y_train)
        assert one.train_rows.equal(alone.train_rows)
        assert one.y_test.equal(alone.y_test)
    held = {stacked.seed(k).passive_train[0].data_ptr() for k in range(3)}
    assert len(held) == (1 if official else 3)


@quick
@given(counts=class_counts, seed=st.integers(0, 10_000), share=st.sampled_from([0.1, 1 / 11, 0.3, 0.5]))
def test_every_row_is_in_exactly_one_part_and_every_class_in_both(counts, seed, share):
    data = made(counts, share=share)
    cut = split(data, seed)
    assert sorted([*cut.train_rows.tolist(), *cut.test_rows.tolist()]) == list(range(len(data.y)))
    assert cut.y_train.equal(data.y[cut.train_rows])
    assert cut.y_test.equal(data.y[cut.test_rows])
    assert set(cut.y_train.tolist()) == set(cut.y_test.tolist()) == set(range(len(counts)))


@quick
@given(counts=class_counts, seeds=st.lists(st.integers(0, 10_000), min_size=2, max_size=4, unique=True))
def test_sizes_do_not_depend_on_the_seed_so_that_splits_stack(counts, seeds):
    data = made(counts)
    cuts = [split(data, s) for s in seeds]
    assert len({tuple(torch.bincount(c.y_test).tolist()) for c in cuts}) == 1
    stacked = Split.stack(cuts)
    assert stacked.passive_train[0].shape == (len(seeds), len(cuts[0].y_train), 2)
    assert stacked.active_test is not None
    assert stacked.active_test[1].equal(cuts[1].active_test)


@quick
@given(counts=class_counts, share=st.floats(0.05, 0.6))
def test_held_out_counts_are_within_one_row_of_the_share(counts, share):
    sizes = held_out_sizes(torch.tensor(counts), share)
    for size, n in zip(sizes, counts, strict=True):
        assert 1 <= size <= n - 1
        # One row of rounding; the bound of at least one row on either side may bind on tiny classes.
        assert abs(size - n * share) < 1 or size in (1, n - 1)


def test_seventy_thirty_in_closed_form():
    assert held_out_sizes(torch.tensor([100, 50, 10]), 0.3) == [30, 15, 3]
    # 0.3 * 21 = 6.3 rows: 2.1 of each class, so the first class gets nothing extra and 6 are held out in all.
    assert held_out_sizes(torch.tensor([7, 7, 7]), 0.3) == [2, 2, 2]
    # LabObf's balanced Bank: 844 of 9,280.
    assert held_out_sizes(torch.tensor([4640, 4640]), 1 / 11) == [422, 422]


def test_same_seed_same_split_other_seed_another():
    data = made([40, 40])
    assert split(data, 3).test_rows.equal(split(data, 3).test_rows)
    assert not split(data, 3).test_rows.equal(split(data, 4).test_rows)


def test_official_test_rows_are_used_for_every_seed():
    official = torch.tensor([5, 0, 9])
    data = made([10, 10], test_rows=official)
    for seed in (0, 1):
        assert split(data, seed).test_rows.tolist() == [0, 5, 9]


def test_a_class_of_one_row_is_named():
    with pytest.raises(DataError, match=r"'made': class '1' has 1 row.*at least 2"):
        split(made([10, 1]), 0)


def naive_standardized(x, scaled, train_rows):
    """A column at a time, with numpy's nan-functions."""
    out = x.astype(np.float64).copy()
    for c in range(x.shape[1]):
        known = [v for v in x[train_rows, c].astype(np.float64) if not np.isnan(v)]
        mean = sum(known) / len(known) if known else 0.0
        out[np.isnan(out[:, c]), c] = mean
        if scaled[c]:
            std = np.std(known) if known and max(known) > min(known) else 1.0
            out[:, c] = (out[:, c] - mean) / std
    return out


@quick
@given(
    n=st.integers(4, 30),
    d=st.integers(1, 70),
    offset=st.sampled_from([0.0, 0.1, 2e3, -1e6]),
    holes=st.floats(0, 0.5),
    seed=st.integers(0, 999),
)
def test_standardized_equals_its_naive_twin(n, d, offset, holes, seed):
    rng = np.random.default_rng(seed)
    x = (rng.normal(offset, 1, (n, d))).astype(np.float32)
    x[:, 0] = offset  # a constant column
    x[rng.random((n, d)) < holes] = np.nan
    scaled = rng.random(d) < 0.7
    train_rows = np.sort(rng.permutation(n)[: max(2, n // 2)])
    got = standardized(Columns("p", torch.tensor(x), (), torch.tensor(scaled)), torch.tensor(train_rows))
    expected = naive_standardized(x, scaled, train_rows)
    # float32 output of a double computation: relative 1e-6 of the value, 1e-5 near zero.
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_standardization_reads_training_rows_only():
    data = made([30, 30])
    cut = split(data, 0)
    x = data.passive[0].x.clone()
    x[cut.test_rows] = 1e6
    moved = dataclasses.replace(data, passive=(dataclasses.replace(data.passive[0], x=x),))
    assert split(moved, 0).passive_train[0].equal(cut.passive_train[0])
    assert not split(moved, 0).passive_test[0].equal(cut.passive_test[0])


def test_training_columns_have_mean_zero_and_deviation_one():
    train = split(made([300, 200]), 0).passive_train[0].double()
    assert train.mean(0).abs().max() < 1e-6
    assert (train.std(0, unbiased=False) - 1).abs().max() < 1e-6


def test_a_column_constant_in_training_stays_small_in_the_test_rows():
    x = torch.tensor([[0.1], [0.1], [0.1], [0.3]])
    got = standardized(Columns("p", x, ("c",), torch.tensor([True])), torch.tensor([0, 1, 2]))
    assert got.flatten().tolist() == pytest.approx([0, 0, 0, 0.2], abs=1e-7)


def test_missing_becomes_the_training_mean():
    x = torch.tensor([[1.0, 0.0], [3.0, 1.0], [float("nan"), float("nan")], [float("nan"), 1.0]])
    got = standardized(Columns("p", x, ("a", "b"), torch.tensor([True, False])), torch.tensor([0, 1, 2]))
    assert got.tolist() == [[-1, 0], [1, 1], [0, 0.5], [0, 1]]


def test_images_are_untouched():
    data = load(Named(name="digits"))
    cut = split(data, 0)
    assert cut.passive_train[0].equal(data.passive[0].x[cut.train_rows])
    assert cut.active_test is not None
    assert data.active is not None
    assert cut.active_test.equal(data.active.x[cut.test_rows])


@quick
@given(
    n=st.integers(1, 40), share=st.floats(0.05, 1), parties=st.integers(1, 5), kind=st.sampled_from(["table", "image"])
)
def test_a_partition_loses_no_column_and_gives_none_twice(n, share, parties, kind):
    """Every column carries its own number, so that whoever holds it can be told from the values."""
    try:
        held = by_share([f"c{k}" for k in range(n)], share, parties, "made")
    except DataError:
        assert (n if share == 1 else min(int(n * share + 0.5), n - 1)) < parties
        return
    numbers = torch.arange(n, dtype=torch.float32)
    if kind == "table":
        passive, active = matrix_parties(numbers.expand(3, n), [f"c{k}" for k in range(n)], share, parties, "made")
    else:
        passive, active = image_parties(numbers.expand(3, 1, 2, n), share, parties, "made")
    tensors = [p.x for p in passive] + ([active.x] if active else [])
    assert torch.cat(tensors, dim=-1)[0].reshape(-1, n)[0].equal(numbers)
    assert [len(c) for c in held.passive.values()] == [p.x.shape[-1] for p in passive]
    assert len(held.active) == (active.x.shape[-1] if active else 0)
    assert (active is None) == (share == 1)
    sizes = [p.x.shape[-1] for p in passive]
    assert len(sizes) == parties
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_party_names():
    assert list(by_share(["a", "b", "c"], 0.67, 1, "made").passive) == ["passive"]
    assert by_share(["a", "b", "c"], 0.67, 2, "made").passive == {"passive_0": ("a",), "passive_1": ("b",)}


@quick
@given(counts=st.lists(st.integers(4, 30), min_size=2, max_size=5), each=st.integers(1, 3), seed=st.integers(0, 999))
def test_auxiliary_rows_are_as_many_of_each_class(counts, each, seed):
    y = made(counts).y
    rows = auxiliary_rows(y, per_class=each, seed=seed)
    assert torch.bincount(y[rows]).tolist() == [each] * len(counts)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert rows.equal(auxiliary_rows(y, per_class=each, seed=seed))
    assert rows.equal(auxiliary_rows(y, total=each * len(counts), seed=seed))


def test_random_auxiliary_rows_are_any_rows():
    y = made([100, 10]).y
    rows = [auxiliary_rows(y, total=20, how="random", seed=s) for s in range(200)]
    assert all(len(set(r.tolist())) == 20 for r in rows)
    # Hypergeometric: mean 20 * 10 / 110 = 1.82 of class 1, standard error 0.084 over 200 draws; 5 of them allowed.
    assert np.mean([int((y[r] == 1).sum()) for r in rows]) == pytest.approx(20 / 11, abs=0.42)
    assert len({tuple(torch.bincount(y[r], minlength=2).tolist()) for r in rows}) > 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"per_class": 10}, ["class 1", "10 training rows", "give 1 to 9"]),
        ({"total": 7}, ["7 rows", "2 classes", "multiple"]),
        ({"total": 110, "how": "random"}, ["110 of 110", "give 1 to 109"]),
        ({"per_class": 0}, ["asked for 0"]),
        ({}, ["give per_class or total"]),
        ({"per_class": 1, "total": 2}, ["give per_class or total"]),
    ],
)
def test_impossible_auxiliary_requests_say_what_would_do(asked, words):
    with refusal(*words):
        auxiliary_rows(made([100, 10]).y, **asked, seed=0)

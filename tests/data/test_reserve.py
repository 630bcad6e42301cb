"""The reserve: the same rows for every seed, a share of every class, and out of the reach of every search."""

import dataclasses

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tests.data.test_split import made
from tune_vfl.data import load
from tune_vfl.data.reserve import reserve_rows, reserve_sizes, why_no_reserve
from tune_vfl.data.split import split
from tune_vfl.spec import Named

quick = settings(max_examples=25, deadline=None)
large_classes = st.lists(st.integers(250, 700), min_size=4, max_size=6)


@quick
@given(counts=large_classes, seed=st.integers(0, 10_000))
def test_a_fifth_of_every_class_is_in_no_part_of_any_search(counts, seed):
    data = made(counts)
    held = reserve_rows(data)
    assert torch.bincount(data.y[held]).tolist() == [round(n / 5) for n in counts]
    searched, reported = split(data, seed, "selection"), split(data, seed, "report")
    parts = [*searched.train_rows.tolist(), *searched.test_rows.tolist(), *held.tolist()]
    assert sorted(parts) == list(range(len(data.y))), "every row is in exactly one of training, test and reserve"
    assert reported.train_rows.equal(searched.train_rows)
    assert reported.test_rows.equal(held)
    assert reported.y_test.equal(data.y[held])


@quick
@given(counts=large_classes, seeds=st.lists(st.integers(0, 10_000), min_size=2, max_size=2, unique=True))
def test_the_reserve_is_the_same_for_every_seed_and_the_search_s_own_rows_are_not(counts, seeds):
    data = made(counts)
    a, b = (split(data, seed, "selection") for seed in seeds)
    first, second = (split(data, seed, "report") for seed in seeds)
    assert first.test_rows.equal(second.test_rows)
    assert not a.test_rows.equal(b.test_rows)
    assert torch.bincount(a.y_train).equal(torch.bincount(b.y_train)), "sizes do not depend on the seed"


def test_all_rows_are_split_as_before_there_was_a_reserve():
    data = made([700, 600])
    cut = split(data, 3)
    assert sorted([*cut.train_rows.tolist(), *cut.test_rows.tolist()]) == list(range(1300))
    assert torch.bincount(cut.y_test).tolist() == [210, 180]
    assert split(data, 3, "all").test_rows.equal(cut.test_rows)


def test_half_of_the_official_test_rows_are_held_back():
    official = torch.arange(800, 1200).flip(0)
    data = made([600, 600], test_rows=official)
    held, cut = reserve_rows(data), split(data, 5, "selection")
    in_test = torch.bincount(data.y[official])
    assert torch.bincount(data.y[held]).tolist() == [round(n / 2) for n in in_test.tolist()]
    assert set(held.tolist()) < set(official.tolist())
    assert sorted([*cut.test_rows.tolist(), *held.tolist()]) == list(range(800, 1200))
    assert cut.train_rows.tolist() == list(range(800)), "the official training rows stay what they are"
    assert split(data, 9, "selection").test_rows.equal(cut.test_rows)


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ([500, 500], ""),
        ([500, 499], "made has 999 rows, and under 1000 none is set aside"),
        ([2000, 250], ""),  # 50 rows of the rarest class
        ([2000, 247], "that of made would hold 49 rows of class '1', and under 50 none is set aside"),
    ],
)
def test_small_data_and_rare_classes_have_none_and_say_why(counts, why):
    data = made(counts)
    assert why_no_reserve(data) == (f"no reserve: {why}" if why else "")
    assert (len(reserve_rows(data)) == 0) == bool(why)
    if why:
        everything = split(data, 2)
        for rows in ("selection", "report"):
            assert split(data, 2, rows).train_rows.equal(everything.train_rows)
            assert split(data, 2, rows).test_rows.equal(everything.test_rows)


def test_rare_classes_of_official_test_rows_count_in_the_test_rows():
    y = made([900, 900]).y
    first = [(y == k).nonzero().squeeze(1) for k in range(2)]
    enough = made([900, 900], test_rows=torch.cat([first[0][:300], first[1][:100]]))
    assert reserve_sizes(enough) == [150, 50]
    assert len(reserve_rows(enough)) == 200
    scarce = made([900, 900], test_rows=torch.cat([first[0][:300], first[1][:98]]))
    assert "would hold 49 rows of class '1'" in why_no_reserve(scarce)
    assert len(reserve_rows(scarce)) == 0


def test_standardization_reads_no_row_of_the_reserve():
    data = made([600, 600])
    x = data.passive[0].x.clone()
    x[reserve_rows(data)] = 1e6
    moved = dataclasses.replace(data, passive=(dataclasses.replace(data.passive[0], x=x),))
    for rows in ("selection", "report"):
        assert split(moved, 0, rows).passive_train[0].equal(split(data, 0, rows).passive_train[0])
    assert split(moved, 0, "selection").passive_test[0].equal(split(data, 0, "selection").passive_test[0])
    assert split(moved, 0, "report").passive_test[0].min() > 100


@pytest.mark.parametrize("name", ["breast_cancer", "wine", "digits"])
def test_no_bundled_data_set_is_large_enough(name):
    assert why_no_reserve(load(Named(name=name))).startswith(
        f"no reserve: {'that of ' if name == 'digits' else ''}{name}"
    )


@pytest.mark.public_data("spambase/spambase.data")
def test_spambase_has_one():
    data = load(Named(name="spambase"))
    assert torch.bincount(data.y[reserve_rows(data)]).tolist() == [558, 363]

"""Streams: one draw per seed, shared by the members that have that seed, equal alone or in a pack."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.seeds import Stream, Streams, derive


@given(st.integers(0, 2**31), st.text(max_size=20))
def test_derived_seeds_are_stable_and_in_range(seed: int, name: str) -> None:
    assert derive(seed, name) == derive(seed, name)
    assert 0 <= derive(seed, name) < 2**63


def test_derived_seed_is_pinned_across_versions() -> None:
    # A change here silently changes every published number of every study.
    assert derive(0, "order") == 5527499407370418099
    assert derive(1, "order") != derive(0, "order")


@pytest.mark.parametrize("draw", ["normal", "uniform", "laplace"])
def test_a_pack_draws_what_each_member_draws_alone(draw: str) -> None:
    members = [3, 5, 3, 9]
    pack = getattr(Stream(members, "noise"), draw)(4, 2)
    alone = torch.stack([getattr(Stream(seed, "noise"), draw)(4, 2) for seed in members])
    assert torch.equal(pack, alone)


def test_a_stream_goes_on_and_another_name_does_not_move_it() -> None:
    one, other = Streams(7), Streams(7)
    first = one["a"].normal(3)
    other["b"].normal(100)
    assert torch.equal(first, other["a"].normal(3))
    assert not torch.equal(first, one["a"].normal(3))


def test_a_prefix_separates() -> None:
    assert not torch.equal(Streams(7, prefix="x/")["a"].normal(3), Streams(7)["a"].normal(3))


def test_laplace_has_its_variance_and_tails() -> None:
    x = Stream(0, "laplace").laplace(200_000)
    assert x.mean().abs() < 0.02
    assert abs(float(x.var()) - 2) < 0.05  # Var Laplace(0, 1) = 2; the standard error here is 0.01
    assert abs(float((x.abs() > 3).float().mean()) - 0.0498) < 0.003  # P(|x| > 3) = exp(-3)

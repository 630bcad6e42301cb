"""Sparsification: a naive twin with numpy's quantile, and what becomes of the residual."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.defenses.sparsification import Sparsification, SparsificationParams
from tune_vfl.testing.defenses import build, run
from tune_vfl.testing.gradients import CASES, MadeUpRows, make_rows


def made(**params):
    return Sparsification(SparsificationParams(**params), num_classes=2, embedding_dims=[4])


def random_grad(rows, seed=0, d=4):
    return torch.randn(rows, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def send(defense, grad, party=0):
    return defense.cut_gradient(grad, y=torch.zeros(len(grad)), party=party)


@given(
    drop=st.floats(0, 0.999), rows=st.integers(1, 30), d=st.integers(1, 8), seed=st.integers(0, 99), ties=st.booleans()
)
@settings(max_examples=80, deadline=None)
def test_three_batches_are_those_of_a_naive_twin(drop, rows, d, seed, ties):
    defense, residual = made(drop=drop), np.zeros((rows, d))
    for step in range(3):
        grad = random_grad(rows, 100 * seed + step, d)
        grad = (grad * 2).round() if ties else grad
        whole = grad.numpy() + residual
        # "higher" in place of interpolation: the same entries lie below, and no rounding decides.
        small = np.abs(whole) < np.quantile(np.abs(whole), drop, method="higher")
        residual = np.where(small, whole, 0)
        assert np.array_equal(send(defense, grad).numpy(), np.where(small, 0, whole))


def test_the_threshold_is_the_interpolated_quantile():
    grad = random_grad(64)
    for drop in (0.1, 0.5, 0.9, 0.99):
        expected = torch.where(grad.abs() < torch.quantile(grad.abs(), drop), 0, grad)
        assert torch.equal(send(made(drop=drop), grad), expected)


@pytest.mark.parametrize("rule", ["drop", "per_size"])
def test_everything_is_sent_in_the_end(rule):
    defense = made(drop=0.9, residual_on_resize=rule)
    total = sum(send(defense, random_grad(16, seed)) for seed in range(5))
    rest = sum(random_grad(16, seed) for seed in range(5)) - total
    torch.testing.assert_close(send(defense, torch.zeros(16, 4, dtype=torch.float64)) != 0, (rest != 0) & top(rest))


def top(rest):
    return rest.abs() >= torch.quantile(rest.abs(), 0.9)


def test_a_smaller_batch_drops_the_residual_or_leaves_it_waiting():
    first, smaller = random_grad(16, 1), random_grad(5, 2)
    nothing = torch.zeros(16, 4, dtype=torch.float64)
    after = {}
    for rule in ("drop", "per_size"):
        defense = made(drop=0.5, residual_on_resize=rule)
        sent = send(defense, first)
        assert torch.equal(send(defense, smaller), send(made(drop=0.5), smaller))
        after[rule] = send(defense, nothing)
    assert not after["drop"].any()
    rest = first - sent
    assert torch.equal(after["per_size"], torch.where(rest.abs() < torch.quantile(rest.abs(), 0.5), 0, rest))
    assert after["per_size"].any()


def test_parties_keep_their_own_residuals_and_setup_forgets_them():
    defense, grad = made(drop=0.5), random_grad(8)
    once = send(defense, grad)
    assert torch.equal(send(defense, grad, party=1), once)
    assert not torch.equal(send(defense, grad), once)
    defense.setup(torch.zeros(8), torch.arange(8))
    assert torch.equal(send(defense, grad), once)


def test_without_residual_every_batch_stands_alone():
    defense, grad = made(drop=0.5, residual=False), random_grad(8)
    assert torch.equal(send(defense, grad), send(defense, grad))


def test_a_nan_does_not_stay():
    defense, grad = made(drop=0.5), random_grad(8)
    broken = grad.clone()
    broken[2, 1] = torch.nan
    send(defense, broken)
    assert torch.isfinite(send(defense, grad)).all()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_pack_is_its_members_in_either_rule(case):
    seeds, alone = [0, 1, 0], make_rows(case, [0, 1, 0])
    for rule in ("drop", "per_size"):
        params = [SparsificationParams(drop=d, residual_on_resize=rule) for d in (0.5, 0.9, 0.99)]
        together = run(build(Sparsification, params, case, MadeUpRows.stack(alone), seeds), MadeUpRows.stack(alone))
        for member, rows in enumerate(alone):
            for name, value in run(build(Sparsification, params[member], case, rows, seeds[member]), rows).items():
                if name.startswith("gradient"):
                    assert torch.equal(together[name][member], value), name


def test_embeddings_are_thinned_out_as_gradients_are():
    inverted, straight = made(drop=0.8, where="embeddings"), made(drop=0.8)
    for step in range(3):
        embedding = random_grad(16, step).requires_grad_()
        sent = inverted.send_embedding(embedding, party=0)
        assert torch.equal(sent, send(straight, embedding.detach()))
        sent.sum().backward()
        assert torch.equal(embedding.grad, (sent != 0).double())  # no way back for what was held back
        assert send(inverted, embedding) is embedding
        assert straight.send_embedding(embedding, party=0) is embedding
    assert "embeddings" in inverted.notes()[0]
    assert not straight.notes()
    assert Sparsification.structure(inverted.members[0]) != Sparsification.structure(straight.members[0])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_pack_of_embeddings_is_its_members(case):
    seeds, alone = [0, 1, 0], make_rows(case, [0, 1, 0])
    params = [SparsificationParams(drop=d, where="embeddings") for d in (0.5, 0.9, 0.99)]
    together = run(build(Sparsification, params, case, MadeUpRows.stack(alone), seeds), MadeUpRows.stack(alone))
    for member, rows in enumerate(alone):
        for name, value in run(build(Sparsification, params[member], case, rows, seeds[member]), rows).items():
            if name.startswith("sent"):
                assert torch.equal(together[name][member], value), name


def test_a_residual_of_gradients_is_declared_and_when_it_is_forgotten():
    assert made().mechanism().unsent == "dropped_on_resize"
    assert made(residual_on_resize="per_size").mechanism().unsent == "kept_by_size"
    assert made(residual=False).mechanism() is None
    assert made(where="embeddings").mechanism() is None

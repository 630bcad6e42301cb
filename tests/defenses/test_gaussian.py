"""Gaussian noise: the moments of its law, and clipping against a loop over rows."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.defenses.gaussian import Gaussian, GaussianParams
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import parse
from tune_vfl.statistics.privacy import epsilon_of


def sent(grad, seed=0, **params):
    made = Gaussian(GaussianParams(**params), num_classes=2, embedding_dims=[grad.shape[-1]])
    y = torch.zeros(grad.shape[:-1], dtype=torch.int64)
    made.setup(y, torch.arange(len(y)), seed=seed)
    return made.cut_gradient(grad, y=y)


def test_noise_has_the_moments_of_its_law():
    noise = sent(torch.zeros(100_000, 4), sigma=0.5)
    # 400,000 draws leave 0.0008 of the mean and a relative 0.11% of the deviation.
    assert abs(noise.mean().item()) < 0.004
    assert noise.std().item() == pytest.approx(0.5, rel=0.006)


@given(low=st.floats(1e-5, 1e-1), factor=st.floats(1.1, 100))
@settings(max_examples=25, deadline=None)
def test_noise_is_sigma_times_the_same_draws(low, factor):
    grad = torch.zeros(8, 4, dtype=torch.float64)
    torch.testing.assert_close(sent(grad, sigma=low * factor), sent(grad, sigma=low) * factor, rtol=1e-5, atol=0)


def test_clipping_shortens_long_rows_and_leaves_short_ones():
    grad = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(sent(grad, sigma=0, clip=1), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))
    noise = sent(grad, sigma=0.1) - grad
    torch.testing.assert_close(sent(grad, sigma=0.1, clip=1) - noise, sent(grad, sigma=0, clip=1))


def test_members_of_a_pack_have_their_own_clip():
    grad = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    params = [GaussianParams(sigma=0, clip=0.1), GaussianParams(sigma=0, clip=0.5)]
    together = Gaussian(params, num_classes=2, embedding_dims=[3]).cut_gradient(grad, y=torch.zeros(2, 5))
    for member, clip in enumerate((0.1, 0.5)):
        torch.testing.assert_close(together[member], sent(grad[member], sigma=0, clip=clip))
    assert Gaussian.structure(params[0]) != Gaussian.structure(GaussianParams())


def test_noise_on_embeddings_leaves_gradients_and_the_way_back_alone():
    made = Gaussian(GaussianParams(sigma=0.5, where="embeddings"), num_classes=2, embedding_dims=[4])
    made.setup(torch.zeros(50_000, dtype=torch.int64), torch.arange(50_000))
    embedding = torch.zeros(50_000, 4, requires_grad=True)
    first, again, other = (made.send_embedding(embedding, party=p) for p in (0, 0, 1))
    assert first.std().item() == pytest.approx(0.5, rel=0.01)
    assert not torch.equal(first, again)
    assert not torch.equal(first, other)
    first.backward(torch.full_like(first, 3.0))
    assert torch.equal(embedding.grad, torch.full_like(first, 3.0))
    assert made.cut_gradient(first, y=torch.zeros(50_000)) is first
    assert "embeddings" in made.notes()[0]
    plain = Gaussian(GaussianParams(), num_classes=2, embedding_dims=[4])
    assert plain.send_embedding(embedding, party=0) is embedding
    assert not plain.notes()


def test_embeddings_are_clipped_too_and_may_not_share_a_pack_with_gradients():
    params = GaussianParams(sigma=0, clip=1, where="embeddings")
    made = Gaussian(params, num_classes=2, embedding_dims=[2])
    torch.testing.assert_close(made.send_embedding(torch.tensor([[3.0, 4.0]]), party=0), torch.tensor([[0.6, 0.8]]))
    assert Gaussian.structure(params) != Gaussian.structure(GaussianParams(sigma=0, clip=1))


@pytest.mark.parametrize(
    ("name", "number", "strongest", "loss"),
    [("gaussian", "sigma", 100.0, 0.02), ("sparsification", "drop", 0.999, 0.002)],
)
def test_a_strong_setting_on_embeddings_costs_utility_and_the_weakest_none(name, number, strongest, loss):
    found = {}
    for where in ("gradients", "embeddings"):
        defense = {"name": name, "params": {"where": where}}
        spec = {"study": "s", "dataset": "breast_cancer", "attacks": ["norm"], "defense": defense}
        cell = resolve(parse({**spec, "training": {"epochs": 10}, "budget": {"seeds": 2}}))
        outcomes = evaluate_pack(cell, [{number: 0.0}, {number: strongest}])
        assert [o.outcome for o in outcomes] == ["ok", "ok"]
        found[where] = [o.utility.mean for o in outcomes]
    weak, strong = found["embeddings"]
    assert weak == pytest.approx(found["gradients"][0], abs=1e-6)
    assert weak > 0.95
    assert strong < weak - loss


def at_clients(*members, rounds, taking=None):
    """Return what clients upload in the last of some rounds, and their defense."""
    made = Gaussian(list(members), num_classes=2, embedding_dims=[3])
    y = torch.zeros(len(members), 4, dtype=torch.int64)
    made.setup(y, torch.arange(4).expand(y.shape), seed=list(range(len(members))))
    update = torch.tensor([3.0, 4.0]).expand(len(members), 1, 2)
    for turn in range(rounds):
        part = torch.tensor([turn < of for of in taking or [rounds] * len(members)])
        sent = made.client_update(update, taking=part.view(-1, 1, 1))
    return sent, made


def test_a_clients_budget_is_that_of_the_rounds_it_took_part_in():
    one, other = GaussianParams(sigma=2.0, clip=4.0), GaussianParams(sigma=5.0, clip=1.0)
    _, made = at_clients(one, one, other, rounds=10, taking=[10, 4, 10])
    # mu = sqrt(rounds) clip / sigma: as one release with sensitivity 1 and noise 1 / mu.
    noise = [2 / (4 * math.sqrt(10)), 1 / 4, 5 / math.sqrt(10)]
    expected = [epsilon_of(1 / s) for s in noise]
    assert made.logged()["epsilon"] == pytest.approx(expected, rel=1e-9)
    assert "budget of the client" in made.notes()[0]
    made.also_uploaded(6)
    noise = [2 / (4 * 4), 2 / (4 * math.sqrt(10)), 5 / 4]
    assert made.logged()["epsilon"] == pytest.approx([epsilon_of(1 / s) for s in noise], rel=1e-9)
    assert not Gaussian(one, num_classes=2, embedding_dims=[3]).logged()


def test_without_clip_or_noise_there_is_no_budget_and_it_is_said():
    sent, made = at_clients(GaussianParams(sigma=0.0, clip=1.0), rounds=1)
    torch.testing.assert_close(sent, torch.tensor([[[0.6, 0.8]]]))
    assert made.logged() == {"epsilon": [math.inf]}
    assert "no noise" in made.notes()[0]
    _, made = at_clients(GaussianParams(sigma=1.0), rounds=1)
    assert not made.logged()
    assert "nothing bounds" in made.notes()[0]
    sent, made = at_clients(GaussianParams(sigma=1.0, clip=1.0, where="embeddings"), rounds=1)
    assert torch.equal(sent, torch.tensor([[[3.0, 4.0]]]))
    assert not made.logged()

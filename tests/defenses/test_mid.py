"""The bottleneck: its divergence in closed form, what training and inference see, packs, and what cannot be joined."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.helpers.problems import made_up_split, network_for
from tune_vfl.data.base import Split
from tune_vfl.defenses.mid import Bottleneck, BottleneckedTop, Mid, MidParams, divergence
from tune_vfl.errors import ShapeError, SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import wrap
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.losses import task_loss
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Stream
from tune_vfl.spec import Training, parse


@given(mean=st.floats(-3, 3), log_variance=st.floats(-4, 3), d=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_divergence_is_torch_s_own(mean, log_variance, d):
    means, log_variances = torch.full((2, 5, d), mean), torch.full((2, 5, d), log_variance)
    law = torch.distributions.Normal(means, (log_variances / 2).exp())
    unit = torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    expected = torch.distributions.kl_divergence(law, unit).sum(-1).mean(-1)
    torch.testing.assert_close(divergence(means, log_variances), expected, rtol=1e-4, atol=1e-5)


def bottleneck(width=3, seed=0):
    return Bottleneck(width, stream=Stream(seed, "init"), noise=Stream(seed, "noise"))


def test_the_draws_have_the_mean_and_the_variance_that_were_asked_for():
    b = bottleneck(1)
    with torch.no_grad():
        b.encode.weight.copy_(torch.tensor([[2.0], [0.0]]))
        b.encode.bias.copy_(torch.tensor([1.0, math.log(0.25)]))
        b.decode.weight.fill_(1.0)
        b.decode.bias.fill_(0.0)
        z = b(torch.full((40_000, 1), 3.0))
        # Mean 7, deviation 0.5: 40,000 draws leave standard errors of 0.0025 and 0.0018.
        assert z.mean().item() == pytest.approx(7, abs=0.01)
        assert z.std().item() == pytest.approx(0.5, abs=0.008)
        assert b.take().item() == pytest.approx(0.5 * (0.25 + 49 - 1 - math.log(0.25)), rel=1e-5)
        assert b.take() is None
        assert torch.equal(b.eval()(torch.full((4, 1), 3.0)), torch.full((4, 1), 7.0))
        assert b.take() is None


def made(members, dims=(5,), classes=2, mode="split", seed=0):
    defense = Mid(members, num_classes=classes, embedding_dims=list(dims), mode=mode)
    lead = () if isinstance(members, MidParams) else (len(members),)
    y = torch.zeros(*lead, 4, dtype=torch.int64)
    defense.setup(y, torch.arange(4).expand(y.shape), seed=seed)
    return defense


def test_each_passive_party_has_its_own_and_the_label_party_passes():
    defense = made(MidParams(), dims=(3, 2))
    top = defense.wrap_top(nn.Identity()).eval()
    joined = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    out = top(joined)
    assert torch.equal(out[:, 5:], joined[:, 5:])
    first, second = top.bottlenecks
    assert torch.equal(out[:, :3], first(joined[:, :3]))
    assert torch.equal(out[:, 3:5], second(joined[:, 3:5]))
    with pytest.raises(ShapeError, match="concat"):
        top(joined[:, :4])


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_loss_adds_the_divergence_of_every_party(weight):
    defense = made(MidParams(weight=weight), dims=(3, 2))
    top = defense.wrap_top(nn.Linear(9, 2))
    joined, y = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
    logits = top(joined)
    first, second = top.bottlenecks
    expected = sum(
        divergence(*b.encode(e).chunk(2, dim=-1)) for b, e in ((first, joined[:, :3]), (second, joined[:, 3:5]))
    )
    found = defense.loss(logits, y, []) - task_loss(logits, y)
    torch.testing.assert_close(found, weight * expected)
    assert torch.equal(defense.loss(logits, y, []), task_loss(logits, y))  # nothing is counted twice


TRAINING = Training(epochs=30, batch_size=32, lr=1e-2)


def trained(members, pack, seeds, **problem):
    splits = [made_up_split(s, **problem) for s in seeds]
    split = splits[0] if pack.trials is None else Split.stack(splits)
    defense = Mid(members, num_classes=2, embedding_dims=[5] * len(splits[0].passive_train))
    y = pack.spread(split.y_train)
    defense.setup(y, torch.arange(y.shape[-1]).expand(y.shape), seed=pack.member_seeds)
    network = network_for(splits[0], pack)
    wrap(network, defense)
    SplitTraining(network, Rows(split, pack), TRAINING, [defense], pack.lead).run()
    return network, defense, split


def test_a_pack_trains_what_its_members_train_alone():
    weights = [MidParams(weight=0.0), MidParams(weight=0.1)]
    members = [w for w in weights for _ in range(2)]
    together, _, _ = trained(members, Pack((0, 1), 2), [0, 1], parties=2)
    for member, params in enumerate(members):
        alone, _, _ = trained(params, Pack((member % 2,), None), [member % 2], parties=2)
        for a, b in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a[member], b, rtol=0, atol=1e-4)


def carried(weight):
    """How many nats of the embedding the top model gets, and the training accuracy through the means."""
    network, defense, split = trained(MidParams(weight=weight), Pack((0,), None), [0], rows=256)
    with torch.no_grad():
        right = (network(split.passive_train, split.active_train).argmax(-1) == split.y_train).double().mean()
        network.train()
        network(split.passive_train, split.active_train)
        [b] = defense._bottlenecks
        return b.take().item(), right.item()


def test_more_weight_carries_less_until_nothing_is_left():
    free, right = carried(0.0)
    some, _ = carried(1e-2)
    nothing, alone = carried(1.0)
    assert free > 3 * some > 3 * nothing
    assert nothing < 0.05
    assert right > 0.9 > alone  # the passive party's columns are lost, the label party's own remain
    assert alone > 0.6


def raw(**changes):
    return parse({"study": "s", "dataset": "breast_cancer", "defense": "mid", "attacks": ["norm"], **changes})


def test_what_it_cannot_take_apart_is_refused():
    with pytest.raises(SpecError, match=r"'mid'.*aggregation=sum.*concat"):
        resolve(raw(model={"aggregation": "sum"}))
    with pytest.raises(SpecError, match="label_only, split"):
        resolve(raw(model={"top": "none"}))
    one_party = {"name": "breast_cancer", "split": 1.0}
    assert resolve(raw(dataset=one_party, model={"aggregation": "mean"})).mode == "label_only"


def test_it_is_evaluated_on_real_data():
    spec = raw(attacks=["norm"], training={"epochs": 10}, budget={"seeds": 2})
    weak, strong = evaluate_pack(resolve(spec), [{"weight": 1e-6}, {"weight": 1.0}])
    assert (weak.outcome, strong.outcome) == ("ok", "ok")
    assert weak.utility.mean > 0.95
    assert math.isfinite(strong.utility.mean)


def test_a_top_model_is_wrapped_with_gradients_for_all_its_layers():
    defense = made([MidParams(), MidParams(weight=0.1)], seed=[0, 1])
    top = defense.wrap_top(nn.Identity())
    assert isinstance(top, BottleneckedTop)
    logits = top(torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0)))
    defense.loss(logits[..., :2], torch.zeros(2, 6, dtype=torch.int64), []).sum().backward()
    assert [tuple(p.shape) for p in top.parameters()] == [(2, 10, 5), (2, 10), (2, 5, 5), (2, 5)]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in top.parameters())

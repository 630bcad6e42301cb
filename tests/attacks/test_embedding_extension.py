"""The embedding extension: when and how its columns are fitted, a plain twin, packs, and a training under it."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from tests.helpers.cells import cells
from tune_vfl.attacks.base import build_attack
from tune_vfl.attacks.embedding_extension import EmbeddingExtension, EmbeddingExtensionParams, Extension
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.metrics.correlation import distance_correlation
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Training
from tune_vfl.testing.views import World, make_world

NAME = "embedding_extension"
QUICK = {"variants": ["logreg"], "inner_steps": 5}
TRAINING = Training(batch_size=256)  # 600 rows: three uploads an epoch


def extension(world: World, **params: Any) -> Extension:
    (hooks,) = EmbeddingExtension(EmbeddingExtensionParams(**params)).hooks(TRAINING, world.view(NAME))
    assert isinstance(hooks, Extension)
    assert hooks.local_optimizer(world.bottom, party=1) is None
    assert hooks.local_optimizer(world.bottom, party=0) is None
    return hooks


def labeled(world: World) -> tuple[torch.Tensor, torch.Tensor]:
    at = world.auxiliary.ids
    x = world.features.train.gather(-2, at.unsqueeze(-1).expand(*at.shape, world.features.train.shape[-1]))
    with torch.no_grad():
        return world.bottom(x), one_hot(world.auxiliary.labels, world.num_classes).float()


def test_columns_stand_beside_the_embedding_and_hide_its_labels():
    world = make_world([0, 1])
    e, y = labeled(world)
    (weak, strong) = (extension(world, inner_steps=n, inner_lr=0.1).send_embedding(e, party=0) for n in (1, 100))
    assert weak.shape == (2, 20, 6 + 4)
    assert torch.equal(weak[..., :6], e)
    before, after = distance_correlation(e, y), distance_correlation(strong, y)
    assert (after < 0.8 * before).all()
    assert (after < distance_correlation(weak, y)).all()


def test_the_fit_is_that_of_a_plain_loop():
    world = make_world(3)
    e, y = labeled(world)
    sent = extension(world, inner_steps=7, inner_lr=0.02, columns=2).send_embedding(e, party=0)
    plain, start = nn.Linear(6, 2), world.view(NAME).streams["extension"]
    bound = 6**-0.5
    plain.weight.data, plain.bias.data = (start.uniform(2, 6) * 2 - 1) * bound, (start.uniform(2) * 2 - 1) * bound
    optimizer = torch.optim.Adam([plain.weight], lr=0.02)
    for _ in range(7):
        optimizer.zero_grad()
        distance_correlation(torch.cat([e, plain(e)], -1), y).backward()
        optimizer.step()
    torch.testing.assert_close(sent, torch.cat([e, plain(e).detach()], -1))


def test_columns_are_fitted_before_each_epoch_of_training_and_never_else():
    world = make_world(0)
    hooks, e = extension(world), labeled(world)[0]
    before = [p.clone() for p in world.bottom.parameters()]
    sent = [hooks.send_embedding(e, party=0) for _ in range(7)]
    changed = [not torch.equal(a, b) for a, b in pairwise(sent)]
    assert changed == [False, False, True, False, False, True]
    world.bottom.eval()
    assert all(torch.equal(hooks.send_embedding(e, party=0), sent[-1]) for _ in range(4))
    world.bottom.train()
    assert torch.equal(hooks.send_embedding(e, party=0), sent[-1])  # test rows in between do not count
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, world.bottom.parameters(), strict=True))


def test_the_columns_follow_the_bottom_model_as_it_stands():
    world = make_world(0)
    hooks, e = extension(world, inner_steps=1, inner_lr=1e-9), labeled(world)[0]
    first = hooks.send_embedding(e, party=0)[..., 6:]
    moved = extension(world, inner_lr=0.1)
    with torch.no_grad():
        for p in world.bottom.parameters():
            p.mul_(3)
    assert not torch.allclose(moved.send_embedding(e, party=0)[..., 6:], first, atol=1e-3)
    assert world.bottom.training


def test_only_the_first_party_cheats():
    world = make_world(0)
    e = torch.randn(5, 6)
    assert extension(world).send_embedding(e, party=1) is e


def test_gradients_flow_through_standing_columns():
    world = make_world(0)
    hooks = extension(world, columns=3)
    e = torch.randn(5, 6, requires_grad=True)
    sent = hooks.send_embedding(e, party=0)
    up = torch.randn(5, 9)
    sent.backward(up)
    with torch.no_grad():
        weight = (hooks.send_embedding(torch.eye(6), party=0) - hooks.send_embedding(torch.zeros(6, 6), party=0))[:, 6:]
    assert e.grad is not None
    torch.testing.assert_close(e.grad, up[:, :6] + up[:, 6:] @ weight.T, atol=1e-5, rtol=1e-4)


def test_a_pack_equals_its_members():
    world = make_world([4, 5, 4])
    hooks, e = extension(world, inner_lr=0.01), labeled(world)[0]
    together = [hooks.send_embedding(e, party=0) for _ in range(4)][-1]
    for i in range(3):
        alone = extension(world.member(i), inner_lr=0.01)
        torch.testing.assert_close([alone.send_embedding(e[i], party=0) for _ in range(4)][-1], together[i])


cell_of = cells("training.epochs=4", defense="discorloss")


def test_it_gets_a_training_of_its_own_with_a_wider_top():
    cell = cell_of({"name": "pmc", "variants": ["logreg"]}, {"name": NAME, "columns": 3, **QUICK})
    settings = [{"weight": w} for w in (0.01, 0.3)]
    outcomes = evaluate_pack(cell, settings)
    for outcome, setting in zip(outcomes, settings, strict=True):
        found = outcome.attacks[NAME]
        assert outcome.outcome == "ok"
        assert 0.5 < found.extra["utility"] <= 1.0
        assert found.values != outcome.attacks["pmc"].values
        assert found.r_lower == pytest.approx(outcome.attacks["pmc"].r_lower, abs=0.02)
        (alone,) = evaluate_pack(cell, [setting])
        np.testing.assert_allclose(alone.attacks[NAME].values, found.values, atol=5e-3)
    params = [defense_params("discorloss", settings[0], num_classes=2)]
    acting = build_attack(cell.attacks[1])
    network = train_pack(Task.open(cell), params, Pack((0,), None), [acting]).network
    d = network.bottoms[0](torch.zeros(1, 15)).shape[-1]
    assert network.top is not None
    assert next(network.top.parameters()).shape[-1] == 2 * d + 3


def test_a_label_party_without_features_can_be_extended_too():
    cell = cell_of({"name": NAME, **QUICK}, dataset={"name": "breast_cancer", "split": 1})
    assert cell.mode == "label_only"
    (outcome,) = evaluate_pack(cell, [{"weight": 0.1}])
    assert outcome.outcome == "ok"


@pytest.mark.parametrize(
    ("setting", "reason"), [("model.aggregation=sum", "use concat"), ("model.top=none", "nosplit")]
)
def test_without_a_place_for_the_columns_it_is_refused(setting, reason):
    with pytest.raises(SpecError, match=reason):
        cell_of({"name": NAME, **QUICK}, settings=(setting,))

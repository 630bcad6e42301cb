"""Batch label inference: the gradient that it gets, what it recovers, and what it says where it cannot."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from tests.helpers.cells import cells
from tune_vfl.attacks.bli import Bli, BliParams
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.grants.base import view_of as seen_by
from tune_vfl.evaluation.grants.parameter_gradient import UntrainedBottom, parameter_gradient
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.models.layers import stack_of
from tune_vfl.protocol.members import Pack, gather_rows
from tune_vfl.seeds import Stream
from tune_vfl.testing.views import make_world

WITHOUT_TOP = "model.top=none"
cell_of = cells("training.epochs=1", dataset="digits", defense="none")


def found_by(*settings: str, params: dict[str, Any] | None = None, attack: dict[str, Any] | None = None, **data: Any):
    cell = cell_of({"name": "bli", **(attack or {})}, settings=settings, **data)
    (outcome,) = evaluate_pack(cell, [params or {}])
    assert outcome.outcome == "ok", outcome.reason
    return outcome.attacks["bli"]


def view_of(**options: Any):
    return make_world(0, num_classes=3, width=3, bottom_widths=(64, 3), batch=32, **options).view("bli")


def test_the_gradient_of_the_parameters_is_the_sum_over_rows():
    bottom = nn.Sequential(*stack_of([4, 3], nn.ReLU, stream=Stream([0, 1], "init")))
    g = torch.Generator().manual_seed(0)
    x, cut = torch.randn(2, 5, 4, generator=g), torch.randn(2, 5, 3, generator=g)
    weight, bias = parameter_gradient(bottom, x, cut)
    for member in range(2):
        by_row = [torch.outer(cut[member, i], x[member, i]) for i in range(5)]
        torch.testing.assert_close(weight[member], torch.stack(by_row).sum(0))
        torch.testing.assert_close(bias[member], cut[member].sum(0))
    assert all(p.grad is None for p in bottom.parameters())


@pytest.mark.parametrize("pack", [Pack((0,), None), Pack((0, 1), 2)])
@pytest.mark.parametrize(
    ("defense", "params"),
    [("none", {}), ("mixup", {"mix": 3}), ("instahide", {"mix": 2}), ("laplace", {"scale": 1e-3})],
)
def test_the_gradient_is_the_one_that_the_first_step_is_made_with(defense: str, params: dict[str, Any], pack: Pack):
    # One step of plain gradient descent moves every parameter by the gradient times the learning rate.
    one_step = ["training.batch_size=4000", "training.optimizer=sgd", "training.lr=0.5", "training.momentum=0"]
    task = Task.open(cell_of("bli", settings=[*one_step, "training.weight_decay=0"], defense=defense))
    trials = [defense_params(defense, params, num_classes=10)] * (pack.trials or 1)
    run = train_pack(task, trials, pack, task.attacks)
    batch = seen_by(task.attacks[0], run).first_batch
    moved = zip(batch.bottom().parameters(), run.network.bottoms[0].parameters(), batch.gradient, strict=True)
    for before, after, gradient in moved:
        torch.testing.assert_close((before - after) / 0.5, gradient, atol=1e-6, rtol=1e-3)
    own = gather_rows(run.x_train, batch.ids)
    assert torch.equal(batch.features, own) == (defense in {"none", "laplace"})


def test_an_undefended_batch_without_top_model_gives_all_its_labels():
    found = found_by(WITHOUT_TOP, "training.batch_size=64")
    assert found.mean >= 0.98
    assert set(found.variants) == {"sum"}
    assert not found.upper_bound


def test_noise_and_strong_soft_labels_hide_them():
    settings = (WITHOUT_TOP, "training.batch_size=32")
    assert found_by(*settings, defense="laplace", params={"scale": 0.3}).mean < 0.35
    assert found_by(*settings, defense="kdk", params={"k": 5, "epsilon": 0.85}).mean < 0.5


def test_label_only_needs_no_other_embedding():
    data = {"name": "digits", "split": 1.0}
    cell = cell_of("bli", settings=[WITHOUT_TOP, "training.batch_size=16"], dataset=data)
    (outcome,) = evaluate_pack(cell, [{}])
    assert cell.mode == "label_only"
    assert outcome.attacks["bli"].mean >= 0.98


def test_a_made_up_top_model_tells_no_classes():
    found = found_by("training.batch_size=32", attack={"iterations": 60})
    assert set(found.variants) == {"head"}
    assert found.mean < 0.45


def test_the_bottom_model_is_the_one_before_the_first_step():
    cell = cell_of("bli", settings=[WITHOUT_TOP])
    params = [defense_params("none", {}, num_classes=10)]
    task = Task.open(cell)
    plain, kept = (train_pack(task, params, Pack((0, 1), 1), attacks) for attacks in ([], task.attacks))
    assert UntrainedBottom not in plain.keepers
    assert plain.table["utility",] == kept.table["utility",]
    for a, b in zip(plain.network.parameters(), kept.network.parameters(), strict=True):
        assert torch.equal(a, b)
    state, trained = kept.kept(UntrainedBottom).bottom.state_dict(), kept.network.bottoms[0].state_dict()
    assert all(not torch.equal(state[k], trained[k]) for k in state)


def test_too_large_a_batch_is_said(caplog):
    world = make_world(0, num_classes=3, width=3, bottom_widths=(8, 3), batch=64)
    with caplog.at_level("WARNING"):
        Bli(BliParams(iterations=1)).run(world.view("bli"))
    assert "192 entries of cut gradients and the bottom model 59 parameters" in caplog.text


def test_variants_that_do_not_fit_are_left_out_or_refused():
    view = view_of()
    assert set(Bli(BliParams(iterations=1)).run(view)) == {"sum"}
    with pytest.raises(SpecError, match="head does not fit"):
        Bli(BliParams(variants="head")).run(view)
    joined = dataclasses.replace(view.first_batch, aggregation="concat", top=lambda stream: nn.Linear(6, 3))
    view = view.holding(parameter_gradient=joined)
    assert set(Bli(BliParams(iterations=1)).run(view)) == {"head"}


def test_a_made_up_top_model_does_not_name_classes_and_its_scores_are_not_oriented():
    view = view_of()
    both = dataclasses.replace(view.first_batch, top=lambda stream: nn.Linear(3, 3))
    answers = Bli(BliParams(iterations=1)).run(view.holding(parameter_gradient=both))
    assert {variant: answer.oriented for variant, answer in answers.items()} == {"sum": True, "head": False}

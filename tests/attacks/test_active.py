"""The active attack: published step sequences, plain twins, packs, and the training of its own that it gets."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.cells import cells
from tune_vfl.attacks.active import Active, ActiveParams
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.parts.malicious import MaliciousOptimizer
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation import measuring as module
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import train_pack
from tune_vfl.spec import Training, parse
from tune_vfl.testing.views import make_world

SGD = Training(optimizer="sgd", lr=0.1, momentum=0.9)
QUICK = {"variants": ["logreg"]}


def applied(gradients, training=SGD, **options):
    """Return what each step took off a parameter that starts at 0, divided by the learning rate."""
    p = nn.Parameter(torch.zeros_like(gradients[0], dtype=torch.float64))
    optimizer, taken = MaliciousOptimizer([p], training, **options), []
    for gradient in gradients:
        before = p.detach().clone()
        p.grad = gradient.double()
        optimizer.step()
        taken.append((before - p.detach()) / training.lr)
    return torch.stack(taken)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("clean", [1, 5.51, 4.0429, 6.3643]),
        ("fu_pt17", [1, 5.04, 2.4429, 3.1263]),
        ("constant", [3, 5.7, 8.13, 10.317]),
    ],
)
def test_steps_under_a_constant_gradient(mode, expected):
    taken = applied(torch.ones(4, 1), mode=mode, alpha=3.0)
    assert taken.squeeze(-1).tolist() == pytest.approx(expected, abs=1e-4)


def plain_clean(gradients, gamma, momentum, decay, lr):
    """The clean mode for a single number, in plain Python."""
    theta, velocity, before, taken = 0.0, None, None, []
    for gradient in gradients:
        wanted = gradient + decay * theta
        velocity = wanted if velocity is None else momentum * velocity + wanted
        ratio = 1.0 if before is None else min(max(1 + gamma * velocity / (before + 1e-7), 1.0), 5.0)
        before = velocity * ratio
        theta -= lr * before
        taken.append(before)
    return taken


def test_clean_equals_a_plain_loop_over_entries():
    gradients = torch.randn(12, 7, generator=torch.Generator().manual_seed(0))
    training = SGD.model_copy(update={"weight_decay": 0.05})
    taken = applied(gradients, training, gamma=0.7)
    for entry in range(7):
        expected = plain_clean(gradients[:, entry].double().tolist(), 0.7, 0.9, 0.05, 0.1)
        assert taken[:, entry].tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("training", [SGD, Training(lr=0.01), Training(lr=0.01, weight_decay=0.1)])
def test_a_factor_of_one_is_what_everybody_does(training):
    gradients = torch.randn(9, 5, generator=torch.Generator().manual_seed(1)).double()
    p = nn.Parameter(torch.zeros(5, dtype=torch.float64))
    usual = {"lr": training.lr, "weight_decay": training.weight_decay}
    theirs = (
        torch.optim.Adam([p], **usual)
        if training.optimizer == "adam"
        else torch.optim.SGD([p], momentum=training.momentum, **usual)
    )
    for gradient in gradients:
        p.grad = gradient.clone()
        theirs.step()
    mine = -training.lr * applied(gradients, training, mode="constant", alpha=1.0).sum(0)
    torch.testing.assert_close(mine, p.detach())


def test_a_turn_is_not_favored_and_silence_moves_nothing():
    plain = SGD.model_copy(update={"momentum": 0.0})
    assert applied(torch.tensor([[1.0], [-2.0]]), plain).squeeze(-1).tolist() == pytest.approx([1.0, -2.0])
    assert applied(torch.zeros(5, 2)).abs().max() == 0
    assert applied(torch.tensor([[0.0], [1.0]]), plain)[1].item() == pytest.approx(5.0)


def test_only_the_first_party_cheats_and_it_follows_the_schedule():
    training = Training(optimizer="sgd", lr=1.0, lr_schedule="inverse_sqrt")
    (hooks,) = Active(ActiveParams()).hooks(training, make_world(0).view("active"))
    bottom = nn.Linear(2, 2)
    assert hooks.local_optimizer(bottom, party=1) is None
    own = hooks.local_optimizer(bottom, party=0)
    assert isinstance(own, MaliciousOptimizer)
    for epoch, rate in ((0, 1.0), (3, 0.5)):
        hooks.gradient_received(torch.zeros(1), party=0, ids=torch.zeros(1), epoch=epoch, step=epoch)
        assert own.param_groups[0]["lr"] == rate


def test_answers_are_those_of_model_completion():
    world, quick = make_world([0, 1]), {"variants": ["logreg", "head_only"], "epochs": 5}
    mine, theirs = (ATTACKS[n](ATTACKS[n].Params(**quick)) for n in ("active", "pmc"))
    answers, expected = (a.run(world.view(a)) for a in (mine, theirs))
    assert answers.keys() == expected.keys()
    assert all(torch.equal(answers[v].scores, expected[v].scores) for v in answers)


cell_of = cells("training.epochs=4")


def test_whoever_acts_gets_a_training_of_its_own_and_disturbs_nobody(monkeypatch):
    acting: list[str | None] = []

    def noticing(*args: Any, **named: Any) -> Any:
        acting.append(next((a.name for a in args[3] if a.capabilities.acts), None))
        return train_pack(*args, **named)

    monkeypatch.setattr(module, "train_pack", noticing)
    pmc, active = {"name": "pmc", **QUICK}, {"name": "active", "mode": "constant", "alpha": 30, **QUICK}
    references = measure_references(cell_of(pmc, active))
    (alone,) = evaluate_pack(cell_of(pmc, "norm"), [{"scale": 1e-4}], references)
    (both,) = evaluate_pack(cell_of(pmc, active, "norm"), [{"scale": 1e-4}], references)
    assert acting == [None, None, "active"]
    assert both.utility == alone.utility
    assert both.attacks["pmc"] == alone.attacks["pmc"]
    assert both.attacks["norm"] == alone.attacks["norm"]
    found = both.attacks["active"]
    assert "utility" not in both.attacks["pmc"].extra
    assert 0.5 < found.extra["utility"] <= 1.0
    assert found.extra["utility"] != both.utility.mean
    assert found.values != both.attacks["pmc"].values
    assert found.r_lower == pytest.approx(both.attacks["pmc"].r_lower, abs=0.02)


def test_a_trial_comes_out_the_same_alone_and_in_a_pack():
    cell = cell_of({"name": "active", **QUICK})
    settings = [{"scale": s} for s in (1e-5, 1e-2)]
    together = evaluate_pack(cell, settings)
    for one, setting in zip(together, settings, strict=True):
        (alone,) = evaluate_pack(cell, [setting])
        np.testing.assert_allclose(one.attacks["active"].values, alone.attacks["active"].values, atol=5e-3)
        assert one.attacks["active"].extra["utility"] == pytest.approx(
            alone.attacks["active"].extra["utility"], abs=2e-3
        )


def test_a_bottom_driven_out_of_bounds_is_no_privacy(monkeypatch):
    cell = cell_of("norm", {"name": "active", "mode": "constant", **QUICK})
    monkeypatch.setattr(MaliciousOptimizer, "_taken", lambda self, p, gradient: torch.full_like(p, torch.nan))
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-4}])
    assert outcome.outcome == "diverged"
    assert outcome.reason == "training under attack 'active' became non-finite with seed 0, 1"


def test_what_stacks_not_is_attacked_seed_by_seed():
    model = {"name": "cnn"}
    cell = cell_of({"name": "active", **QUICK}, dataset="digits", model=model, settings=("training.epochs=1",))
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-4}])
    assert outcome.outcome == "ok"
    assert len(outcome.attacks["active"].values) == 2
    assert outcome.attacks["active"].extra["utility"] > 0


def test_the_released_optimizer_needs_an_sgd_recipe():
    released = {"name": "active", "mode": "fu_pt17", **QUICK}
    with pytest.raises(SpecError, match=r"training\.optimizer: sgd"):
        cell_of(released)
    cell = cell_of(released, settings=("training.optimizer=sgd", "training.lr=0.05", "training.momentum=0.9"))
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-4}])
    assert outcome.outcome == "ok"
    with pytest.raises(SpecError, match="nosplit"):
        cell_of({"name": "active", **QUICK}, settings=("model.top=none",))


def test_attacks_that_end_in_model_completion_have_its_floor():
    cell = resolve(
        parse(
            {
                "study": "s",
                "dataset": "breast_cancer",
                "defense": {"name": "none"},
                "attacks": [
                    {"name": name, "variants": ["logreg_all", "mixmatch_unfrozen"], "steps": 20}
                    for name in ("pmc", "active", "embedding_extension")
                ],
                "budget": {"trials": 1, "seeds": 2},
            }
        )
    )
    floors = measure_references(cell).r_lower
    assert floors["active"] == floors["pmc"] == floors["embedding_extension"]

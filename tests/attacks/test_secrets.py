"""Secrets of a model, fitted to known pairs: exact where pairs tell, what was to be expected where they do not."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.cells import cells
from tune_vfl.attacks.parts import secrets
from tune_vfl.attacks.parts.secrets import fit_secrets, relative_error, secrets_of
from tune_vfl.defenses.fedpass import Fedpass, FedpassParams
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.models.base import MODELS
from tune_vfl.models.layers import select_member, stack_of
from tune_vfl.protocol.granted import Pairs
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream

cell_of = cells("training.epochs=3", dataset="digits", defense="fedpass")
Opening = Callable[[int], nn.Module]


def hidden(bottom: nn.Module, x: Tensor, seeds: int | list[int] = 0) -> tuple[nn.Module, Opening]:
    """Give a bottom model passports, show it rows for its norms; return it, and what the label party knows of it."""
    law = FedpassParams(where="bottom", mean_range=10.0, variance=1.0)
    defense = Fedpass(law if isinstance(seeds, int) else [law] * len(seeds), num_classes=2, embedding_dims=[4])
    y = torch.zeros(4, dtype=torch.int64) if isinstance(seeds, int) else torch.zeros(len(seeds), 4, dtype=torch.int64)
    defense.setup(y, torch.arange(4).expand(y.shape), seed=seeds)
    wrapped = defense.wrap_bottom(bottom).requires_grad_(False)
    for _ in range(50):
        wrapped(x)
    wrapped.eval()
    return wrapped, lambda draw: defense.open_bottom(wrapped, stream=Stream(seeds, f"draw/{draw}"))


def perceptron(seeds: int | list[int] = 0) -> nn.Module:
    return nn.Sequential(*stack_of([6, 8, 4], nn.ReLU, stream=Stream(seeds, "init")))


def images() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(24, 5))


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("bottom", "shape"), [(perceptron(), (6,)), (images(), (1, 6, 6))])
def test_scale_and_shift_are_found_from_a_few_pairs(bottom: nn.Module, shape: tuple[int, ...]) -> None:
    x, fresh = rows(16, *shape), rows(50, *shape, seed=1)
    true, opening = hidden(copy.deepcopy(bottom), x)
    sent, wanted = true(x), true(fresh)
    guess = relative_error(opening(0).eval()(fresh), wanted).item()
    found = fit_secrets(opening, Pairs(x, sent), restarts=2, steps=200)
    assert guess > 0.05
    assert relative_error(found.bottom(fresh), wanted) < 2e-3
    assert found.error < 2e-3
    assert not any(p.requires_grad for p in found.bottom.parameters())


def test_pairs_that_tell_nothing_leave_what_was_to_be_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(16, 6)
    _, opening = hidden(perceptron(), x)
    draws = [secrets_of(opening(i)) for i in range(32)]
    expected = opening(0)
    center, spread = {}, {}
    for name, secret in secrets_of(expected).items():
        spread[name], center[name] = torch.std_mean(torch.stack([d[name].detach() for d in draws]), 0)
        secret.data.copy_(center[name])
    noise = 5 * rows(16, 4, seed=1)
    pairs = Pairs(x, expected(x).detach() + noise - noise.mean(0))

    def distance(bottom: nn.Module) -> float:
        """Mean squared distance from what was expected, in deviations; some 1 for another guess."""
        fitted = dict(bottom.named_parameters())
        return float(torch.cat([((fitted[n] - center[n]) / spread[n]).square() for n in center]).mean())

    found = fit_secrets(opening, pairs, restarts=1, steps=200)
    assert found.error > 0.9  # 1 is the mean embedding
    assert distance(found.bottom) < 0.6
    monkeypatch.setattr(secrets, "STRENGTHS", (1e-4,))
    assert distance(fit_secrets(opening, pairs, restarts=1, steps=200).bottom) > 5


def test_members_of_a_pack_are_fitted_as_they_are_alone() -> None:
    seeds = [0, 1]
    x = rows(2, 12, 6)
    true, opening = hidden(perceptron(seeds), x, seeds)
    together = fit_secrets(opening, Pairs(x, true(x)), restarts=2, steps=60)
    for i in range(2):
        alone = fit_secrets(
            lambda draw, i=i: select_member(opening(draw), i), Pairs(x[i], true(x)[i]), restarts=2, steps=60
        )
        torch.testing.assert_close(alone.error, together.error[i], rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(alone.bottom(x[i]), together.bottom(x)[i], rtol=1e-3, atol=1e-4)


def test_fewer_numbers_than_secrets_are_said(caplog: pytest.LogCaptureFixture) -> None:
    true, opening = hidden(perceptron(), rows(2, 6))
    with caplog.at_level("WARNING"):
        fit_secrets(opening, Pairs(rows(2, 6), true(rows(2, 6))), restarts=1, steps=1)
        assert not caplog.text
        fit_secrets(opening, Pairs(rows(1, 6), true(rows(1, 6))), restarts=1, steps=1)
    assert "1 known rows with 4 numbers each are fewer than the 8 secrets" in caplog.text


@pytest.mark.parametrize("model", ["cnn", "lenet", "mlp", "resnet20"])
def test_every_kind_of_bottom_model_can_be_fitted(model: str) -> None:
    architecture = MODELS[model]
    bottom = architecture(architecture.Options()).bottom((1, 16, 16), 5, Stream(0, "bottom"))
    x = rows(6, 1, 16, 16).sigmoid()
    true, opening = hidden(bottom, x)
    found = fit_secrets(opening, Pairs(x, true(x)), restarts=1, steps=2)
    assert found.bottom(x).shape == (6, 5)


def test_the_attacker_fits_takes_the_better_way_and_knows_what_the_study_says() -> None:
    quick = {"name": "wmi", "iterations": 100, "rows": 24, "restarts": 1, "tv": 0.0, "l2": [0.1, 1.0]}
    cell = cell_of({**quick, "fit_restarts": 2}, threat={"pairs": 12})
    (outcome,) = evaluate_pack(cell, [{"where": "bottom"}])
    found = outcome.attacks["wmi"]
    assert set(found.variants) == {"fitted", "guessed"}
    assert found.variants["fitted"]["mse"] < found.variants["guessed"]["mse"]
    assert found.variant == "fitted"
    assert not found.upper_bound
    (outcome,) = evaluate_pack(cell, [{"where": "top"}])
    assert set(outcome.attacks["wmi"].variants) == {"wmi"}


def test_known_pairs_are_as_many_as_the_study_says() -> None:
    for attack, threat, count in (
        ("wmi", {"pairs": 7}, 7),
        ("wmi", {}, 16),
        ({"name": "wmi", "tuning_rows": 3}, {}, 3),
    ):
        task = Task.open(cell_of(attack, settings=["training.epochs=1"], threat=threat))
        run = train_pack(task, [FedpassParams(where="bottom")], Pack((0,), 1), task.attacks)
        assert view_of(task.attacks[0], run).pairs.embeddings.shape[-2] == count

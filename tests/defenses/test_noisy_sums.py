"""Clipped and noisy sums over batches: what is told, and the budget of all steps together."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.evaluation import evaluate
from tune_vfl.statistics.privacy import delta_of


def made(**params: Any) -> Any:
    built = DEFENSES["noisy_sums"](
        defense_params("noisy_sums", params, num_classes=2), num_classes=2, embedding_dims=[1, 1]
    )
    built.setup(torch.tensor([0, 1]), torch.arange(2), seed=0)
    return built


def scorecard(defense: str, params: dict[str, Any], *settings: str) -> dict[str, Any]:
    answer = evaluate(
        "breast_cancer",
        defense=defense,
        params=params,
        attacks=["residual_sums"],
        seeds=2,
        settings=("model.name=logistic", "training.batch_size=32", *settings),
    )
    assert answer["outcome"] == "ok", answer.get("reason")
    return answer


def test_a_sum_is_clipped_as_a_whole_and_shorter_ones_are_left() -> None:
    clipped = made(sigma=0, clip=1)
    sums = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    torch.testing.assert_close(clipped.send_sums(sums, party=0), sums / 5)
    assert torch.equal(clipped.send_sums(sums / 10, party=0), sums / 10)
    assert torch.equal(made(sigma=0, clip=1e9).send_sums(sums, party=0), sums)


def test_noise_has_its_deviation_and_is_drawn_anew_for_each_step_and_party() -> None:
    noisy = made(sigma=0.5)
    first, later, other = (noisy.send_sums(torch.zeros(20, 500), party=party) for party in (0, 0, 1))
    assert first.std().item() == pytest.approx(0.5, rel=0.03)  # of 10,000 numbers: a standard error of .0035
    for another in (later, other):
        correlation = torch.corrcoef(torch.stack([first.flatten(), another.flatten()]))[0, 1]
        assert abs(correlation.item()) < 0.05


def test_epsilon_is_that_of_all_steps_and_of_one_party() -> None:
    noisy = made(sigma=4.0, clip=1.0)
    assert noisy.logged() == {"epsilon": [0.0]}
    for _ in range(9):
        for party in (0, 1):
            noisy.send_sums(torch.ones(1, 3), party=party)
    (epsilon,) = noisy.logged()["epsilon"]
    assert delta_of(epsilon, mu=math.sqrt(9) * 2 / 4) == pytest.approx(1e-5, rel=1e-6)
    assert "all labels together" in noisy.notes()[0]
    without = made(sigma=0)
    without.send_sums(torch.ones(1, 3), party=0)
    assert without.logged() == {"epsilon": [math.inf]}


def test_the_weakest_setting_is_the_undefended_training() -> None:
    plain, weakest = scorecard("none", {}), scorecard("noisy_sums", dict(DEFENSES["noisy_sums"].weakest))
    assert weakest["utility"]["values"] == plain["utility"]["values"]
    assert weakest["leakage"] == plain["leakage"]


def test_noise_hides_labels_and_costs_utility() -> None:
    plain, noisy = scorecard("none", {}), scorecard("noisy_sums", {"sigma": 3.0, "clip": 1.0})
    assert noisy["leakage"] < plain["leakage"] - 0.3
    assert noisy["utility"]["mean"] < plain["utility"]["mean"]
    assert noisy["logged"]["epsilon"] > 0


def test_noise_on_residuals_before_they_are_summed_hides_labels_too() -> None:
    assert scorecard("gaussian", {"sigma": 0.3})["leakage"] < scorecard("none", {})["leakage"] - 0.3


def test_swapped_labels_are_what_sums_are_of() -> None:
    answer = scorecard("label_dp", {"epsilon": 0.01})
    assert answer["leakage"] < 0.3
    assert answer["utility"]["mean"] < 0.9

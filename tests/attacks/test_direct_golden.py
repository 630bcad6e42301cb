"""The direct attack's own rules on what the registered defenses send at the first step: one table of published values.

Batches of 32 and ten classes at starting weights; a row that gives no answer counts as wrong.
"""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.direct import Rule, infer
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.testing.gradients import softmax_gradient

CLASSES, BATCHES = 10, 300


@cache
def sent(name: str, settings: tuple[tuple[str, Any], ...]) -> tuple[Tensor, Tensor]:
    """Return what the defense sends, ``(BATCHES, 32, K)``, every batch as a member of one pack, and the classes."""
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(BATCHES, 32, CLASSES, generator=g) * 0.05
    y = torch.randint(0, CLASSES, (BATCHES, 32), generator=g)
    cls = DEFENSES[name]
    params = cls.Params.model_validate(dict(settings))
    defense = cls([params] * BATCHES, num_classes=CLASSES, embedding_dims=[CLASSES], mode="nosplit")
    ids = torch.arange(32).expand(y.shape)
    features = torch.randn(BATCHES, 32, 4, generator=g)
    defense.setup(y, ids, active_features=features, seed=list(range(BATCHES)))
    targets = defense.labels(y, ids)
    soft = targets if targets.dim() > y.dim() else one_hot(targets, CLASSES).float()
    return defense.cut_gradient(softmax_gradient(logits, soft), y=y), y


def success(name: str, rule: Rule, **settings: Any) -> float:
    gradients, y = sent(name, tuple(settings.items()))
    label, failed = infer(gradients, rule)
    return float(((label == y) & ~failed).double().mean())


# 9,600 rows: a standard error of at most 0.0051, on top of which the published values are rounded to 0.01 or 0.001.
TABLE: list[tuple[str, dict[str, Any], Rule, float, float]] = [
    ("none", {}, "first_negative", 1.0, 0),
    ("none", {}, "argmin", 1.0, 0),
    ("laplace", {"scale": 1e-3}, "first_negative", 0.906, 0.015),
    ("laplace", {"scale": 1e-2}, "first_negative", 0.263, 0.02),
    ("laplace", {"scale": 1e-1}, "first_negative", 0.129, 0.02),
    ("laplace", {"scale": 1e-2}, "argmin", 0.74, 0.02),
    ("laplace", {"scale": 1e-1}, "argmin", 0.14, 0.02),
    ("ppdl", {"theta": 0.75}, "first_negative", 0.388, 0.02),
    ("ppdl", {"theta": 0.5}, "first_negative", 0.398, 0.02),
    ("ppdl", {"theta": 0.25}, "first_negative", 0.090, 0.02),
    ("ppdl", {"theta": 0.1}, "first_negative", 0.041, 0.02),
    ("ppdl", {"theta": 0.75}, "argmin", 0.73, 0.02),
    ("gradient_compression", {"keep": 0.75}, "first_negative", 1.0, 0),
    ("gradient_compression", {"keep": 0.5}, "first_negative", 1.0, 0),
    ("gradient_compression", {"keep": 0.25}, "first_negative", 1.0, 0),
    ("gradient_compression", {"keep": 0.1}, "first_negative", 0.97, 0.02),
    ("sgsub", {}, "argmin", 1.0, 0),
    ("sgsub", {}, "first_negative", 0.21, 0.02),
    ("flsg", {}, "argmin", 1.0, 0),
    ("flsg", {}, "first_negative", 0.21, 0.02),
]


@pytest.mark.parametrize(("name", "settings", "rule", "expected", "tolerance"), TABLE)
def test_published_one_step_values(
    name: str, settings: dict[str, Any], rule: Rule, expected: float, tolerance: float
) -> None:
    assert success(name, rule, **settings) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("bins", [*range(2, 25), 31, 48])
def test_rounding_to_any_number_of_parts_of_the_published_bound_hides_nothing(bins: int) -> None:
    for rule in ("first_negative", "argmin"):
        assert success("discrete_sgd", rule, bins=bins, bound=3e-2) == 1.0


@pytest.mark.parametrize(
    ("k", "epsilon", "rule", "expected"),
    [
        (3, 0.45, "first_negative", 0.33),
        (5, 0.70, "first_negative", 0.21),
        (5, 0.70, "argmin", 1.0),
        (5, 0.75, "argmin", 1.0),
        (3, 0.45, "argmin", 1.0),
        (5, 0.85, "argmin", 0.0),
        (5, 0.85, "argmax_of_negatives", 1.0),
    ],
)
def test_published_one_step_values_of_kdk(k: int, epsilon: float, rule: Rule, expected: float) -> None:
    # One untaught teacher a batch: which other classes share the label's place must not lean on their numbers.
    found = success("kdk", rule, k=k, epsilon=epsilon, teacher_epochs=1, teacher_hidden=(8,))
    assert found == pytest.approx(expected, abs=0.02)

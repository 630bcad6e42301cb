"""Defenses of trees: the first trees and pure nodes at home, and label noise in the place of labels."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.spec import parse


def made(name: str, **params: Any) -> Any:
    return DEFENSES[name](defense_params(name, params, num_classes=2), num_classes=2, embedding_dims=[1])


def on_trees(defense: str, params: dict[str, Any], attack: str = "tree_completion") -> dict[str, Any]:
    answer = evaluate(
        "breast_cancer", defense=defense, params=params, attacks=[attack], seeds=2, settings=("model.name=secureboost",)
    )
    assert answer["outcome"] == "ok", answer.get("reason")
    return answer


def test_local_trees_are_the_first_rounds() -> None:
    shares = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    kept = [made("local_trees", first=2).kept_at_home(shares, round_=k).tolist() for k in range(4)]
    assert kept == [[True, True], [True, True], [False, False], [False, False]]
    assert not made("local_trees", first=0).kept_at_home(shares, round_=0).any()


def test_nodes_purer_than_the_bound_stay_at_home_and_empty_ones_are_not_pure() -> None:
    shares = torch.tensor([[0.9, 0.1], [0.91, 0.09], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    assert made("purity", bound=0.9).kept_at_home(shares, round_=0).tolist() == [False, True, True, False]
    assert not made("purity", bound=1.0).kept_at_home(shares, round_=0).any()


def test_a_node_is_told_if_its_rows_and_those_outside_are_like_all() -> None:
    """Of 100 rows 50 are positive: D of 3 in 4 is .1308 nats, that of the 80 rows outside .0078; of all in 5, ln 2."""
    of_all = torch.tensor([50.0, 50.0])
    rows = torch.tensor([[5.0, 15.0], [0.0, 5.0], [45.0, 50.0], [0.0, 0.0]])
    inside = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert made("id_lmid", bound=inside + 1e-6).tellable(rows, of_all=of_all).tolist() == [True, False, False, True]
    assert made("id_lmid", bound=inside - 1e-6).tellable(rows, of_all=of_all).tolist() == [False, False, False, True]
    assert made("id_lmid", bound=0.7).tellable(rows, of_all=of_all).all()  # outside of the third, 5 rows of one class


def test_the_mutual_information_of_a_label_and_a_told_node_is_bounded() -> None:
    answer = on_trees("id_lmid", {"bound": 0.05})
    undefended = on_trees("none", {})
    assert answer["logged"]["splits_of_others"] < undefended["logged"]["splits_of_others"]
    assert answer["leakage"] < undefended["leakage"]


def test_the_first_trees_at_home_are_the_label_partys_own_model() -> None:
    alone = on_trees("local_trees", {"first": 50})
    assert alone["leakage"] == 0
    assert alone["logged"]["splits_of_others"] == 0
    none, some = (on_trees("local_trees", {"first": first}) for first in (0, 5))
    assert none["leakage"] > 0.5
    assert none["utility"]["values"] == on_trees("none", {})["utility"]["values"]
    assert some["utility"]["values"] != none["utility"]["values"]


@pytest.mark.parametrize("name", ["purity", "label_dp", "id_lmid"])
def test_the_weakest_setting_grows_the_undefended_trees(name: str) -> None:
    weakest = DEFENSES[name].weakest
    assert weakest is not None
    defended, plain = on_trees(name, dict(weakest)), on_trees("none", {})
    assert defended["utility"]["values"] == pytest.approx(plain["utility"]["values"], abs=2e-3)
    assert defended["leakage"] == pytest.approx(plain["leakage"], abs=0.02)


def test_labels_that_are_swapped_at_random_teach_trees_nothing() -> None:
    answer = on_trees("label_dp", {"epsilon": 0.01})
    assert answer["utility"]["mean"] < 0.75
    assert answer["leakage"] < 0.3  # of two seeds, over a floor of .97 that magnifies what they differ by


def test_a_corrected_loss_reaches_the_trees() -> None:
    """Corrected for the swapping, scores are those of the true classes: farther from even than of noisy labels."""
    plain, corrected = (on_trees("label_dp", {"epsilon": 2.0, "forward_correct": c}) for c in (False, True))
    assert plain["utility"]["values"] != corrected["utility"]["values"]
    assert corrected["utility"]["mean"] > 0.8


def test_a_label_party_without_columns_grows_no_trees_of_its_own() -> None:
    raw = {"study": "s", "dataset": {"name": "breast_cancer", "split": 1}, "model": "secureboost"}
    with pytest.raises(SpecError, match="defined for split"):
        resolve(parse({**raw, "defense": {"name": "local_trees", "params": {"first": 1}}}))

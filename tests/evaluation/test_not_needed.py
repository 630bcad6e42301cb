"""Dear attacks of a portfolio: when they are left out, what is said of them, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.cells import cells
from tune_vfl.driver.undefended import undefended
from tune_vfl.evaluation import packs
from tune_vfl.evaluation.packs import NEARLY_ALL, evaluate_pack
from tune_vfl.evaluation.portfolios import spare
from tune_vfl.evaluation.resolving import open_task, resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.outcome import Outcome
from tune_vfl.spec import Cell, parse

SPEC: dict[str, Any] = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "budget": {"seeds": 2}}
cell_of = cells("training.epochs=8")
OPEN, HIDDEN = {"scale": 0.0001}, {"scale": 0.5}
"""Noise under which others find everything, and noise under which nothing does."""


@pytest.fixture(scope="module")
def cell() -> Cell:
    return cell_of("default")


@pytest.fixture(scope="module")
def together(cell: Cell) -> list[Outcome]:
    """Both settings in one pack, of which one needs the dear attack."""
    return evaluate_pack(cell, [OPEN, HIDDEN])


@pytest.mark.parametrize(
    ("more", "left_out"),
    [
        ({}, ("matched_filter",)),
        ({"attacks": ["thorough"]}, ("matched_filter",)),
        ({"attacks": ["default", "matched_filter"]}, ()),
        ({"attacks": ["matched_filter"]}, ()),
        ({"constraints": {"leakage": 0.2}}, ("matched_filter",)),
        ({"constraints": {"attacks.matched_filter.success": 0.9}}, ()),
        ({"constraints": {"attacks.pmc.success": 0.9}}, ("matched_filter",)),
    ],
)
def test_what_a_spec_asks_for_by_its_name_is_always_run(more: dict[str, Any], left_out: tuple[str, ...]) -> None:
    spec = parse(SPEC | more)
    task = open_task(spec)
    assert task.cell.spare == resolve(spec).spare == spare(spec, task.attacks) == left_out


def test_the_undefended_model_meets_every_attack(cell: Cell) -> None:
    assert cell.spare == ("matched_filter",)
    assert undefended(cell).spare == ()


def test_where_others_have_found_nearly_all_it_is_left_out_and_that_is_said(together: list[Outcome]) -> None:
    easy, hard = together
    assert "matched_filter" not in easy.attacks
    by, share = easy.not_needed["matched_filter"].removesuffix(" of the way").split(" found ")
    assert min(easy.attacks[by].advantages) == pytest.approx(float(share), abs=5e-4)
    assert float(share) >= NEARLY_ALL
    assert hard.not_needed == {}
    assert len(hard.attacks["matched_filter"].values) == 2


def test_nothing_else_changes(cell: Cell, together: list[Outcome]) -> None:
    """Scores of the others are the same digit for digit, and a pack's answers those of its settings alone."""
    whole = evaluate_pack(cell.model_copy(update={"spare": ()}), [OPEN, HIDDEN])
    for left_out, full in zip(together, whole, strict=True):
        rest = {name: score for name, score in full.attacks.items() if name not in left_out.not_needed}
        for name, score in rest.items():
            assert left_out.attacks[name].values == pytest.approx(score.values, abs=1e-6), name
        assert left_out.utility == full.utility
        assert full.not_needed == {}
    assert whole[0].leakage == pytest.approx(together[0].leakage, abs=1 - NEARLY_ALL)
    assert whole[1].leakage == pytest.approx(together[1].leakage, abs=1e-6)
    (alone,) = evaluate_pack(cell, [OPEN])
    assert alone.not_needed == together[0].not_needed


def test_settings_around_one_that_is_left_out_keep_their_own_numbers(cell: Cell) -> None:
    settings = [HIDDEN, OPEN, {"scale": 0.1}]
    first, left_out, last = evaluate_pack(cell, settings)
    assert set(left_out.not_needed) == {"matched_filter"}
    for found, setting in ((first, settings[0]), (last, settings[2])):
        (alone,) = evaluate_pack(cell, [setting])
        assert found.attacks["matched_filter"].values == pytest.approx(alone.attacks["matched_filter"].values, abs=1e-4)


def test_with_every_seed_means_each_of_them(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}

    def lower(self: Any, attack: Any, table: Any) -> Any:
        score = original(self, attack, table)
        return score and score.model_copy(update={"advantages": [1.0, found["second"]]})

    original = packs._Bench._score
    monkeypatch.setattr(packs._Bench, "_score", lower)
    found["second"] = NEARLY_ALL - 0.01
    assert evaluate_pack(cell, [OPEN])[0].not_needed == {}
    found["second"] = NEARLY_ALL
    assert set(evaluate_pack(cell, [OPEN])[0].not_needed) == {"matched_filter"}


def test_seeds_that_are_trained_one_after_the_other_meet_every_attack(cell: Cell) -> None:
    task = Task.open(cell)
    assert task.stackable
    single = replace(task, architecture=_unstackable(task.architecture))
    (outcome,) = packs.evaluate_task(single, [OPEN])
    assert outcome.not_needed == {}
    assert "matched_filter" in outcome.attacks


def _unstackable(architecture: Any) -> Any:
    class Alone(type(architecture)):  # type: ignore[misc]
        stackable = False

    return Alone(architecture.options)


def test_a_setting_that_diverges_is_said_to_do_so(cell: Cell) -> None:
    far = cell.model_copy(update={"training": cell.training.model_copy(update={"lr": 1e30})})
    (outcome,) = evaluate_pack(far, [OPEN])
    assert (outcome.outcome, outcome.not_needed) == ("diverged", {})

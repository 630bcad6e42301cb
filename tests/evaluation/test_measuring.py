"""What is measured of a training and without one: who is attacked, what acting attacks add, and what R_lower is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.cells import cells
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.evaluation import measuring
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.measuring import (
    add_acted,
    guess_of,
    measure_pack,
    measured,
    rarest_in_test,
    score_attack,
)
from tune_vfl.evaluation.scoring import score_answer, score_reconstruction
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict

SEEDS = (0, 1)
COMPLETION = ("gradient_completion",)
PMC = {"name": "pmc", "variants": ["logreg"]}
cell_of = cells("training.epochs=2", defense="none")


def lost_with(reasons: list[str], **columns: list[Any]) -> dict[tuple[str, ...], list[Any]]:
    return {
        ("lost",): reasons,
        ("utility",): [0.9] * len(reasons),
        **{tuple(k.split("/")): v for k, v in columns.items()},
    }


def test_an_acting_attack_adds_its_success_and_its_time_and_leaves_the_utility() -> None:
    attack = ATTACKS["active"]()
    table = lost_with(["", "training", ""], **{"seconds/train": [1.0, 1.0, 2.0], "logged/x": [5.0] * 3})
    acted = {
        ("lost",): ["", "", "training"],
        ("utility",): [0.8, 0.7, 0.6],
        ("seconds", "train"): [3.0, 3.0, 3.0],
        ("seconds", "attack"): [0.5, 0.5, 0.5],
        ("logged", "x"): [6.0] * 3,
        ("attack", "active", "logreg", "success"): [0.9, 0.8, 0.7],
    }
    add_acted(table, attack, acted)
    assert table["lost",] == ["", "training", "training under attack 'active'"]
    assert table["utility",] == [0.9] * 3
    assert table["logged", "x"] == [5.0] * 3
    assert table["seconds", "train"] == [4.0, 4.0, 5.0]
    assert table["seconds", "attack"] == [0.5] * 3
    assert table["attack", "active", "logreg", "success"] == [0.9, 0.8, 0.7]
    assert table["attack", "active", "logreg", "utility"] == [0.8, 0.7, 0.6]


def test_what_watches_shares_a_training_and_what_acts_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    active = {"name": "active", "variants": ["logreg"]}
    task = Task.open(cell_of("norm", PMC, active))
    trained: list[list[str]] = []

    def noticing(task: Task, params: Any, pack: Pack, attacks: Any, **more: Any) -> Any:
        trained.append([a.name for a in attacks])
        return train_pack(task, params, pack, attacks, **more)

    monkeypatch.setattr(measuring, "train_pack", noticing)
    table = measure_pack(task, [Strict()], Pack(SEEDS, 1), deadline=None, device="cpu")
    assert trained == [["norm", "pmc"], ["active"]]
    assert {key[1] for key in table if key[0] == "attack"} == {"norm", "pmc", "active"}
    assert len(table["seconds", "attack"]) == 2
    assert table["attack", "active", "logreg", "utility"] != table["utility",]
    both_lost = {"table": lost_with(["x", "x"])}
    monkeypatch.setattr(measuring, "train_pack", lambda *a, **k: replace(noticing(*a, **k), **both_lost))
    trained.clear()
    lost = measure_pack(task, [Strict()], Pack(SEEDS, 1), deadline=None, device="cpu")
    assert trained == [["norm", "pmc"]]
    assert lost["lost",] == ["x", "x"]
    assert not any(key[0] == "attack" for key in lost)


def test_the_time_of_the_attacks_is_shared_out_to_the_members(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task.open(cell_of("norm"))
    run = train_pack(task, [Strict()], Pack(SEEDS, 1), task.watching)
    ticks = iter([10.0, 16.0])
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(ticks))
    assert measured(run, task.watching)["seconds", "attack"] == [3.0, 3.0]
    assert ("seconds", "attack") not in run.table


def test_members_are_scored_one_by_one_where_an_attack_cannot_take_them_together() -> None:
    task = Task.open(cell_of("norm", PMC))
    run = train_pack(task, [Strict()] * 2, Pack(SEEDS, 2), task.watching)
    for attack in task.watching:
        together = score_attack(attack, run)

        leads = []

        class Alone(type(attack)):  # type: ignore[misc]
            capabilities = replace(type(attack).capabilities, stackable=False)

            def run(self, view: Any) -> Any:
                leads.append(view.lead)  # noqa: B023 - called in this turn of the loop
                return super().run(view)

        apart = score_attack(Alone(attack.params), run)
        assert leads == [()] * 4 * attack.draws
        assert score_attack(Alone(attack.params), run.member(1)).keys() == together.keys()
        assert set(apart) == set(together)
        for key, values in together.items():
            assert len(values) == 4
            np.testing.assert_allclose(apart[key], values, atol=2e-3)
        first = score_attack(attack, run, [0])
        for name, answer in attack.run(view_of(attack, run)).items():
            scored = score_answer(answer, run.y_train, run.y_test, 2, [0, 1, 0, 1])
            assert first["attack", attack.name, name, "success"] == scored["success"]


def test_an_attack_on_features_is_scored_on_the_rows_of_the_party_under_attack() -> None:
    task = Task.open(cell_of({"name": "bmi", **ATTACKS["bmi"].quick}))
    (attack,) = task.watching
    run = train_pack(task, [Strict()], Pack(SEEDS, 1), task.watching)
    table = score_attack(attack, run)
    for variant, answer in attack.run(view_of(attack, run)).items():
        scored = score_reconstruction(answer, run.x_train)
        assert {name: table["attack", "bmi", variant, name] for name in scored} == scored


def test_the_guess_and_the_rarest_class_are_counted_on_the_rows_in_use() -> None:
    task = Task.open(cell_of("norm", dataset="digits", attacks=[PMC]))
    split = split_of(task, Pack(SEEDS, 1))
    shares = [y.bincount().max().item() / len(y) for y in split.y_train]
    assert guess_of(task) == pytest.approx(np.mean(shares))
    assert rarest_in_test(task) == min(int((y == k).sum()) for y in split.y_test for k in range(10))
    assert guess_of(Task.open(cell_of("norm"))) == 0.5

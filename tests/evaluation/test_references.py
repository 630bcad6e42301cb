"""What attacks reach without messages: on untrained and on moved models, by own columns, and once for all alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.cells import cells
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.evaluation import references
from tune_vfl.evaluation.drifting import drifted
from tune_vfl.evaluation.measuring import score_attack
from tune_vfl.evaluation.references import key_of_references, measure_references, references_of, references_once
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import untrained
from tune_vfl.protocol.members import Pack

SEEDS = (0, 1)
COMPLETION = ("gradient_completion",)
PMC = {"name": "pmc", "variants": ["logreg"]}
cell_of = cells("training.epochs=2", defense="none")


def test_r_lower_is_the_mean_over_untrained_models_of_the_attacks_that_read_one() -> None:
    task = Task.open(cell_of("norm", PMC, {"name": "active", "variants": ["logreg"]}))
    pmc = task.attacks[1]
    measured = references_of(task)
    found = measured.r_lower
    assert set(found) == set(measured.noise) == {"pmc", "active"}
    untouched = [untrained(task, Pack(SEEDS, 1), [pmc], start) for start in range(pmc.starts)]
    assert (pmc.starts, pmc.draws) == (5, 2)
    successes = [
        score_attack(pmc, run, [draw])["attack", "pmc", "logreg", "success"]
        for run, draw in zip(untouched, (0, 1, 0, 1, 0), strict=True)
    ]
    assert measure_references(task.cell).r_lower == found
    assert found["pmc"] == pytest.approx(np.mean(successes, axis=0))
    deviation = np.std(successes, axis=0, ddof=1)
    assert measured.noise["pmc"] == pytest.approx(np.hypot(deviation, deviation / pmc.starts**0.5)), (
        "one's and a mean's"
    )
    assert not np.allclose(successes[0], successes[1])


def test_a_party_s_floors_are_what_its_attacks_reach_on_untrained_and_on_moved_models() -> None:
    oracle_and_features = "mean", {"name": "bmi", **ATTACKS["bmi"].quick}
    task = Task.open(cell_of("norm", PMC, "gradient_completion", {"name": "active", "variants": ["logreg"]}))
    found = references_of(task)
    assert set(found.floors) == {""}
    untouched = {f"{name} on an untrained model": found.r_lower[name] for name in ("pmc", "active", *COMPLETION)}
    assert {way: of for way, of in found.floors[""].items() if way in untouched} == untouched
    moved = {f"{name} on a model moved by noise" for name in ("pmc", *COMPLETION)}  # nobody else watches bottom models
    assert set(found.floors[""]) - set(untouched) == moved | {"own columns"}
    runs = [drifted(task, Pack(SEEDS, 1), task.watching, start) for start in range(task.attacks[1].starts // 2)]
    pmc = [
        score_attack(task.attacks[1], run, [n % 2])["attack", "pmc", "logreg", "success"] for n, run in enumerate(runs)
    ]
    assert found.floors[""]["pmc on a model moved by noise"] == pytest.approx(np.mean(pmc, axis=0))
    without = references_of(Task.open(cell_of(*oracle_and_features)))
    assert without.floors == {}, "neither is a way to guess labels"
    assert set(without.r_lower) == {"bmi"}
    assert without.noise == {}, "no model takes part in what is measured once"
    assert set(references_of(Task.open(cell_of("norm"))).floors[""]) == {"own columns"}, "though no attack reads them"


def test_the_numbers_of_words_are_no_columns() -> None:
    task = Task.open(cell_of("norm"))
    words = [replace(columns, x=columns.x.long()) for columns in task.dataset.passive]
    assert references_of(replace(task, dataset=replace(task.dataset, passive=tuple(words)))).floors == {}


def test_an_architecture_that_cannot_be_stacked_has_the_same_floor() -> None:
    task = Task.open(cell_of(PMC))

    class Single(type(task.architecture)):  # type: ignore[misc]
        stackable = False

    apart = replace(task, architecture=Single(task.architecture.options))
    alone, together = references_of(apart), references_of(task)
    assert alone.r_lower["pmc"] == pytest.approx(together.r_lower["pmc"], abs=2e-3)
    for way, successes in together.floors[""].items():
        assert alone.floors[""][way] == pytest.approx(successes, abs=2e-3)


def test_references_are_measured_once_for_tasks_that_differ_in_the_defense(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Task] = []
    monkeypatch.setattr(references, "references_of", lambda task, device: asked.append(task) or len(asked))
    monkeypatch.setattr(references, "_KNOWN", {})
    same = [cell_of(PMC), cell_of(PMC, defense="laplace")]
    assert [references_once(Task.open(cell)) for cell in same] == [1, 1]
    others = [cell_of("pmc"), cell_of(PMC, budget={"trials": 1, "seeds": 3}), cell_of(PMC, dataset="wine")]
    longer = cell_of(PMC, settings=["training.epochs=9"])  # noise moves a model further
    assert [references_once(Task.open(cell)) for cell in (*others, longer)] == [2, 3, 4, 5]
    assert references_once(Task.open(same[0])) == 1


def test_what_references_depend_on_is_the_model_and_the_attacks_that_read_more_than_messages() -> None:
    same = cell_of(PMC), cell_of(PMC, defense="laplace"), cell_of(PMC, "grad_cluster"), cell_of("norm", PMC)
    assert len({key_of_references(cell) for cell in same}) == 1
    model = same[0].model.model_copy(update={"head": "scalar"})
    scalar = same[0].model_copy(update={"defense": "gafm", "model": model})
    assert key_of_references(scalar) == key_of_references(same[0]), "gafm's head is no part of what is without it"
    others = cell_of("norm"), cell_of("mean"), cell_of("pmc"), cell_of(PMC, settings=["training.lr=0.1"])
    assert len({key_of_references(cell) for cell in (*same, *others)}) == 5

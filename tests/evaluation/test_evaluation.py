"""Train once, attack many: outcomes, their independence of packs, and what happens to settings that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.cells import cells
from tune_vfl import evaluate
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation import measuring as module
from tune_vfl.evaluation import packs as packs_module
from tune_vfl.evaluation.resolving import open_task, resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.metrics.utility import auc
from tune_vfl.outcome import Outcome
from tune_vfl.protocol import recorder
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.recorder import recording_bytes
from tune_vfl.spec import Strict, parse
from tune_vfl.spec.cell import References

FAST = ["training.epochs=4"]
QUICK_PMC = {"name": "pmc", "variants": ["logreg", "head_only"]}


cell_of = cells(*FAST, attacks=["norm", "direction"])


def assert_same(a: Outcome, b: Outcome) -> None:
    assert a.outcome == b.outcome == "ok"
    assert a.utility is not None
    assert b.utility is not None
    np.testing.assert_allclose(a.utility.values, b.utility.values, atol=2e-3)
    for name in a.attacks:
        np.testing.assert_allclose(a.attacks[name].values, b.attacks[name].values, atol=5e-3)


def test_a_trial_comes_out_the_same_alone_and_in_a_pack() -> None:
    cell = cell_of(attacks=["norm", "direction", QUICK_PMC])
    references = measure_references(cell)
    settings = [{"scale": s} for s in (1e-5, 1e-3, 1e-1)]
    together = evaluate_pack(cell, settings, references)
    alone = [evaluate_pack(cell, [s], references)[0] for s in settings]
    for a, b in zip(together, alone, strict=True):
        assert_same(a, b)


def test_more_noise_leaks_less() -> None:
    weak, strong = evaluate_pack(cell_of(), [{"scale": 1e-6}, {"scale": 1.0}])
    assert weak.leakage is not None
    assert strong.leakage is not None
    assert weak.leakage > 0.9
    assert strong.leakage < 0.2


def test_an_impossible_setting_is_infeasible_and_the_others_go_on() -> None:
    good, bad = evaluate_pack(cell_of(), [{"scale": 1e-3}, {"scale": -1.0}])
    assert good.outcome == "ok"
    assert bad.outcome == "infeasible"
    assert "scale" in bad.reason
    assert bad.leakage is None


def test_a_diverging_trial_is_diverged_and_harms_nothing_else() -> None:
    calm, wild = evaluate_pack(cell_of(), [{"scale": 1e-3}, {"scale": 1e38}])
    alone = evaluate_pack(cell_of(), [{"scale": 1e-3}])[0]
    assert wild.outcome == "diverged"
    assert wild.leakage is None
    assert_same(calm, alone)


def test_weights_too_large_for_their_logits_are_diverged_and_no_error() -> None:
    # One step of Adam leaves weights of about 1e25, which are finite; the logits that they make are not.
    cell = cell_of(defense="none", settings=["training.epochs=1", "training.batch_size=1000", "training.lr=1e25"])
    (outcome,) = evaluate_pack(cell, [{}])
    assert outcome.outcome == "diverged"
    assert outcome.utility is None


def test_a_trial_that_raises_is_an_error_and_harms_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.train_pack

    def fails_for_large_scales(task: Task, params: Any, *rest: Any, **named: Any) -> Any:
        if any(p.scale > 0.5 for p in params):
            raise RuntimeError("broken on purpose")
        return real(task, params, *rest, **named)

    monkeypatch.setattr(module, "train_pack", fails_for_large_scales)
    good, bad = evaluate_pack(cell_of(), [{"scale": 1e-3}, {"scale": 0.9}])
    assert good.outcome == "ok"
    assert bad.outcome == "error"
    assert bad.reason == "RuntimeError: broken on purpose"


def test_an_attack_without_a_score_names_the_seeds() -> None:
    """Where the first batch has four rows, some seeds draw too few of a class; each seed alone shows which."""

    def outcome(*seeds: int) -> Outcome:
        cell = cells("training.epochs=1", "training.batch_size=4")({"name": "bli", "iterations": 1})
        (found,) = evaluate_pack(cell.model_copy(update={"seeds": seeds}), [{"scale": 1e-3}])
        return found

    without = [seed for seed in range(6) if outcome(seed).outcome == "error"]
    assert 0 < len(without) < 6
    assert f"'bli' has no score with seed {', '.join(map(str, without))}, where" in outcome(*range(6)).reason


def test_running_out_of_memory_is_oom(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **named: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "train_pack", full)
    assert [o.outcome for o in evaluate_pack(cell_of(), [{"scale": 1e-3}])] == ["oom"]


def test_a_trial_over_its_minutes_is_a_timeout() -> None:
    cell = cell_of(settings=["training.epochs=100000", "budget.trial_minutes=0.005"])
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-3}])
    assert outcome.outcome == "timeout"
    assert "of 100000 epochs" in outcome.reason


def test_large_recordings_shrink_the_pack_then_go_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    last = {"moments": ["last"], "average": 0}
    median = {"name": "median", "rule": "both", **last}
    cell = cell_of(attacks=[*({"name": n, **last} for n in ("norm", "direction", "mean")), median])
    settings = [{"scale": s} for s in (1e-5, 1e-3, 1e-1)]
    usual = evaluate_pack(cell, settings)
    trials: list[int] = []

    def noticing(task: Task, params: Any, *rest: Any, **more: Any) -> Any:
        trials.append(len(params))
        return train_pack(task, params, *rest, **more)

    monkeypatch.setattr(module, "train_pack", noticing)
    per_trial = recording_bytes(2, 569, 10, {"last"})
    for limit, packs in ((2 * per_trial, [2, 1]), (100, [1, 1, 1])):
        monkeypatch.setattr(packs_module, "IN_MEMORY_BYTES", limit)
        monkeypatch.setattr(recorder, "IN_MEMORY_BYTES", limit)
        trials.clear()
        for a, b in zip(usual, evaluate_pack(cell, settings), strict=True):
            assert_same(a, b)
        assert trials == packs


def test_what_cannot_be_stacked_is_run_one_by_one() -> None:
    cell = resolve(
        parse(
            {
                "study": "cnn",
                "dataset": "digits",
                "model": {"name": "cnn"},
                "defense": "gradient_compression",
                "attacks": [{**QUICK_PMC, "steps": 20}],
                "training": {"epochs": 1},
                "budget": {"trials": 1, "seeds": 2},
            }
        )
    )
    assert not Task.open(cell).stacks(Strict())
    first, second = evaluate_pack(cell, [{"keep": 0.5}, {"keep": 1.0}])
    assert first.outcome == second.outcome == "ok"
    assert len(first.attacks["pmc"].values) == 2


def test_floor_is_the_larger_of_the_guess_and_r_lower_and_advantage_follows() -> None:
    cell = cell_of(attacks=[QUICK_PMC])
    lower = {"pmc": [0.6, 0.8]}
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-5}], References(r_lower=lower))
    score = outcome.attacks["pmc"]
    assert score.r_lower == pytest.approx(0.7)
    assert score.floor == pytest.approx(0.7)
    assert score.guess == 0.5
    assert score.advantage == pytest.approx((score.mean - 0.7) / 0.3)
    assert outcome.leakage == score.advantage


def test_all_attacks_on_labels_of_a_party_are_held_against_one_floor_and_those_on_features_against_their_own() -> None:
    cell = cell_of(attacks=[QUICK_PMC, "norm", "median", {"name": "bmi", **ATTACKS["bmi"].quick}])
    ways = {"own columns": [0.5, 0.9], "pmc on a model moved by noise": [0.6, 0.7]}
    references = References(r_lower={"pmc": [0.6, 0.65]}, floors={"": ways})
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-5}], references)
    for name in ("pmc", "norm", "median"):
        score = outcome.attacks[name]
        assert (score.floor_by, score.floors) == ("own columns", [0.5, 0.9])
        assert np.mean(score.advantages) == pytest.approx((score.mean - 0.7) / 0.3)
    assert outcome.attacks["pmc"].r_lower == pytest.approx(0.625), "its own stays beside it"
    assert (outcome.attacks["bmi"].floor_by, outcome.attacks["bmi"].floor) == ("guess", 0.0)
    (alone,) = evaluate_pack(cell, [{"scale": 1e-5}], References(floors={"bank": ways}))
    assert alone.attacks["norm"].floor_by == "guess", "of another party nothing is taken off"
    assert [alone.attacks[n].values for n in outcome.attacks] == [s.values for s in outcome.attacks.values()]


def test_success_under_r_lower_marks_the_attack_as_weak() -> None:
    cell = cell_of(attacks=[QUICK_PMC])
    (outcome,) = evaluate_pack(cell, [{"scale": 1e-5}], References(r_lower={"pmc": [0.9999, 0.9999]}))
    assert outcome.attacks["pmc"].weak_attack
    assert outcome.attacks["pmc"].advantage == 0


def test_answer_of_the_evaluate_verb() -> None:
    answer = evaluate("breast_cancer", attacks=["norm", "median"], seeds=2, settings=FAST)
    assert answer["schema"] == "tune-vfl/evaluation/1"
    assert answer["dataset"] == "breast_cancer"
    assert answer["defense"] == {"name": "none", "params": {}}
    assert answer["seeds"] == [0, 1]
    assert answer["outcome"] == "ok"
    assert answer["utility"]["metric"] == "auc"
    assert answer["utility"]["mean"] == pytest.approx(np.mean(answer["utility"]["values"]))
    assert answer["utility"]["std"] == pytest.approx(np.std(answer["utility"]["values"], ddof=1))
    norm = answer["attacks"]["norm"]
    assert {"metric", "mean", "std", "values", "advantage", "floor", "variants", "weak_attack"} <= set(norm)
    assert answer["leakage"] == max(a["advantage"] for a in answer["attacks"].values())


def test_the_papers_scalars_stand_beside_each_attack_of_evaluate_and_a_search_measures_no_training_rows() -> None:
    answer = evaluate("breast_cancer", attacks=["norm", QUICK_PMC], seeds=2, settings=FAST)
    norm, pmc, tested = answer["attacks"]["norm"], answer["attacks"]["pmc"], answer["utility"]["values"]
    ratios = [u / k for u, k in zip(tested, norm["values"], strict=True)]
    assert norm["utility_per_leak"] == pytest.approx(np.mean(ratios))
    ratios = [k / u for u, k in zip(answer["training_utility"], norm["values"], strict=True)]
    assert norm["leak_per_training_auc"] == pytest.approx(np.mean(ratios))
    assert norm["cap"] is None
    assert pmc["cap"] == pytest.approx(answer["utility"]["mean"] * (1 - pmc["extra"]["top1"]))
    (searched,) = evaluate_pack(cell_of("norm"), [{"scale": 1e-3}])
    assert searched.training_utility == []


def test_the_utility_on_training_rows_is_that_of_the_trained_model_on_them() -> None:
    spec = parse({"study": "t", "dataset": "breast_cancer", "defense": "none", "attacks": ["norm"]})
    task = replace(open_task(spec), asks_training_rows=True)
    run = train_pack(task, [defense_params("none", {}, num_classes=2)], Pack((0, 1), 1), task.attacks)
    with torch.no_grad():
        own = run.pack.spread(run.split.active_train) if run.split.active_train is not None else None
        logits = run.network([run.x_train], own)
    scores = logits.softmax(-1)[..., 1] if logits.shape[-1] == 2 else logits[..., 0]
    by_hand = [auc(s.double().numpy(), y.numpy()) for s, y in zip(scores, run.y_train, strict=True)]
    assert run.table["training_rows", "utility"] == pytest.approx(by_hand, abs=1e-4)


def test_direct_attack_on_undefended_summed_logits_is_certain() -> None:
    settings = ["model.top=none", "training.epochs=2", "attacks.direct.rule=all"]
    answer = evaluate("digits", attacks=["direct"], seeds=2, settings=settings)
    variants = answer["attacks"]["direct"]["variants"]
    assert variants["argmin@first_batch"]["values"] == [1.0, 1.0]
    # Saturation in float32 may cost single rows over the epoch.
    assert min(variants["first_negative@epoch0"]["values"]) >= 0.999


def test_same_seed_same_answer() -> None:
    first, second = (evaluate("wine", attacks=[QUICK_PMC], seeds=1, settings=FAST) for _ in range(2))
    assert first["utility"] == second["utility"]
    assert first["attacks"] == second["attacks"]

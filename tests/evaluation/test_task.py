"""One task: what a cell names is opened once, and handed down to whoever needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from trainables.cell import CellTrainable
from tune_vfl.data.loading import load
from tune_vfl.driver.planning import plan
from tune_vfl.evaluation import evaluate, evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import build_model
from tune_vfl.spec import References, parse

RAW: dict[str, Any] = {
    "study": "once",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm", {"name": "pmc", "variants": ["logreg"]}, {"name": "active", "variants": ["logreg"]}],
    "training": {"epochs": 2},
    "budget": {"trials": 4, "seeds": 2},
}


@pytest.fixture
def calls_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], list[Any]]:
    """Count calls of a function, whichever module calls it under whatever name."""

    def counted(function: Callable[..., Any]) -> list[Any]:
        calls: list[Any] = []

        def counting(*args: Any, **named: Any) -> Any:
            calls.append(args)
            return function(*args, **named)

        for name, module in list(sys.modules.items()):
            if name.split(".")[0] in ("tune_vfl", "trainables", "reports"):
                for attribute, value in list(vars(module).items()):
                    if value is function:
                        monkeypatch.setattr(module, attribute, counting)
        return calls

    return counted


def test_an_evaluation_loads_its_data_and_builds_its_architecture_once(calls_of: Any) -> None:
    loads, builds = calls_of(load), calls_of(build_model)
    settings, pmc = ["training.epochs=2"], {"name": "pmc", "variants": ["logreg"]}
    assert evaluate("breast_cancer", defense="laplace", attacks=["norm", pmc], settings=settings)["outcome"] == "ok"
    assert (len(loads), len(builds)) == (1, 1)


def test_a_pack_loads_its_data_and_builds_its_architecture_once(calls_of: Any) -> None:
    cell = resolve(parse(RAW))
    loads, builds = calls_of(load), calls_of(build_model)
    outcomes = evaluate_pack(cell, [{"scale": s} for s in (1e-4, 1e-3, 1e-2)])
    assert [o.outcome for o in outcomes] == ["ok"] * 3
    assert (len(loads), len(builds)) == (1, 1)


def test_a_model_that_a_trial_changes_is_one_more_architecture_and_no_more_data(calls_of: Any) -> None:
    cell = resolve(parse(RAW))
    loads, builds = calls_of(load), calls_of(build_model)
    trials = [{"scale": 1e-3}, {"scale": 1e-3, "model.embedding_dim": 4}, {"scale": 1e-2, "training.lr": 0.01}]
    assert [o.outcome for o in evaluate_pack(cell, trials)] == ["ok"] * 3
    assert (len(loads), len({str(args) for args in builds})) == (1, 2)


def test_a_worker_opens_its_pack_once(calls_of: Any) -> None:
    cell = resolve(parse(RAW))
    loads, builds = calls_of(load), calls_of(build_model)
    pack = {
        "cell": cell.model_dump_json(),
        "references": References().model_dump_json(),
        "params": [{"scale": 1e-3}, {"scale": 1e-2}],
    }
    assert [o.outcome for o in CellTrainable.outcomes(pack)] == ["ok"] * 2
    assert (len(loads), len(builds)) == (1, 1)


def test_a_plan_loads_its_data_once_also_where_the_recipe_is_searched(calls_of: Any) -> None:
    loads = calls_of(load)
    lr = {"float": [1e-4, 1e-2], "log": True}
    [study] = plan({**RAW, "training": {"lr": lr}, "model": {"embedding_dim": {"choice": [4, 8, 16]}}}).studies
    assert set(study.space.params) == {"scale", "training.lr", "model.embedding_dim"}
    assert len(loads) == 1


def test_a_task_keeps_what_a_trial_does_not_change() -> None:
    task = Task.open(resolve(parse(RAW)))
    same, rest = task.with_params({"scale": 1e-3})
    assert (same, rest) == (task, {"scale": 1e-3})
    other, _ = task.with_params({"scale": 1e-3, "training.lr": 0.01})
    assert (other.dataset, other.architecture, other.attacks) == (task.dataset, task.architecture, task.attacks)
    assert [a.name for a in task.watching] == ["norm", "pmc"]
    assert [a.name for a in task.acting] == ["active"]

"""No training, attack or reference of a search meets a row of the reserve; what ``confirm`` measures does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainables.cell import CellTrainable
from tune_vfl import evaluate
from tune_vfl.data import load
from tune_vfl.data.reserve import reserve_rows
from tune_vfl.driver.planning import plan_study
from tune_vfl.driver.undefended import undefended
from tune_vfl.evaluation import training
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.protocol.members import Rows
from tune_vfl.spec import parse
from tune_vfl.spec.cell import MEASURE, Cell

ROWS = 1200


def table(path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], ROWS // 2))
    x = rng.normal(size=(ROWS, 6)) + y[:, None] * 0.7
    pd.DataFrame({**{f"c{k}": x[:, k] for k in range(6)}, "label": y}).to_csv(path, index=False)
    return path


def cell_of(path: Path) -> Cell:
    """The cell that a search of this table has."""
    spec = parse(
        {
            "study": "s",
            "dataset": {"name": "csv", "path": str(path), "label": "label", "split": 0.5},
            "training": {"epochs": 2},
            "defense": "laplace",
            "attacks": ["norm", {"name": "pmc", "variants": ["logreg"]}],
            "budget": {"trials": 1, "seeds": 2},
        }
    )
    return plan_study(spec).cell


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """The rows of every split that is made, and those that the loop is given."""
    rows: dict[str, set[int]] = {"train": set(), "test": set(), "loop": set()}
    give = Rows.__init__

    def watched(cut_up: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*arguments: Any) -> Any:
            split = cut_up(*arguments)
            rows["train"] |= set(split.train_rows.reshape(-1).tolist())
            rows["test"] |= set(split.test_rows.reshape(-1).tolist())
            return split

        return watching

    def watched_rows(self: Rows, split: Any, pack: Any) -> None:
        rows["loop"] |= set(split.train_rows.reshape(-1).tolist())
        give(self, split, pack)

    for name in ("split_for_seed", "stacked_split"):
        monkeypatch.setattr(training, name, watched(getattr(training, name)))
    monkeypatch.setattr(Rows, "__init__", watched_rows)
    return rows


def test_a_search_meets_no_row_of_the_reserve(tmp_path: Path, seen: dict[str, set[int]]) -> None:
    cell = cell_of(table(tmp_path / "table.csv"))
    assert cell.rows == "selection"
    held = set(reserve_rows(load(cell.dataset)).tolist())
    assert len(held) == ROWS // 5
    references, _ = CellTrainable.measure(cell.model_copy(update={"seeds": cell.seeds_of_undefended}), {})
    for some in (cell, undefended(cell)):  # the trials, and the baseline that they are compared with
        [outcome] = CellTrainable.evaluate(some, [{"scale": 1e-3} if some is cell else {}], references, {})
        assert outcome.outcome == "ok", outcome.reason
    assert seen["loop"] | seen["test"] == set(range(ROWS)) - held
    assert seen["train"] == seen["loop"]


def test_what_is_confirmed_trains_on_the_search_s_rows_and_is_measured_on_the_reserve(
    tmp_path: Path, seen: dict[str, set[int]]
) -> None:
    cell = cell_of(table(tmp_path / "table.csv")).model_copy(update={"rows": "report", "seeds": (1000, 1001)})
    held = set(reserve_rows(load(cell.dataset)).tolist())
    [outcome] = evaluate_pack(cell, [{"scale": 1e-3}])
    assert outcome.outcome == "ok", outcome.reason
    assert seen["test"] == held
    assert not seen["loop"] & held


def test_a_search_s_numbers_do_not_depend_on_what_the_reserve_holds(tmp_path: Path) -> None:
    path = table(tmp_path / "table.csv")
    cell = cell_of(path)
    [before] = evaluate_pack(cell, [{"scale": 1e-3}])
    [reported] = evaluate_pack(cell.model_copy(update={"rows": "report"}), [{"scale": 1e-3}])
    frame = pd.read_csv(path)
    places, columns = reserve_rows(load(cell.dataset)).tolist(), [f"c{k}" for k in range(6)]
    frame.loc[places, columns] = 1e4 + np.random.default_rng(1).normal(size=(len(places), len(columns)))
    frame.to_csv(path, index=False)
    [after] = evaluate_pack(cell, [{"scale": 1e-3}])
    [moved] = evaluate_pack(cell.model_copy(update={"rows": "report"}), [{"scale": 1e-3}])
    assert after.model_dump(exclude={"seconds"}) == before.model_dump(exclude={"seconds"})
    assert moved.utility != reported.utility
    assert moved.attacks["norm"].values == reported.attacks["norm"].values


def test_evaluate_takes_all_rows_unless_it_is_asked_for_those_of_a_search(tmp_path: Path) -> None:
    path = table(tmp_path / "table.csv")
    given: dict[str, Any] = {"name": "csv", "path": str(path), "label": "label", "split": 0.5}
    ask: dict[str, Any] = {"attacks": ["norm"], "seeds": 1, "settings": ["training.epochs=1"]}
    everything, selection = evaluate(given, **ask), evaluate(given, **ask, rows="selection")
    assert (everything["rows"], selection["rows"]) == ("all", "selection")
    assert everything["measure"] == MEASURE
    assert everything["data"] == {**selection["data"], "rows": ROWS, "reserve": ROWS // 5}
    assert everything["utility"]["values"] != selection["utility"]["values"]


def test_evaluate_says_where_there_is_no_reserve(run: Any) -> None:
    shared = ("evaluate", "-d", "breast_cancer", "-a", "norm", "--seeds", 1, "--set", "training.epochs=1")
    code, _, err = run(*shared, "--rows", "selection")
    assert code == 0
    assert "note: no reserve: breast_cancer has 569 rows" in err
    assert "no reserve" not in run(*shared)[2]
    code, _, err = run(*shared, "--rows", "report")
    assert code == 2
    assert "selection" in err


def test_a_cell_that_says_nothing_of_its_rows_uses_all_of_them() -> None:
    raw = {"dataset": "wine", "model": "mlp", "training": {}, "defense": "none", "attacks": [], "seeds": [0]}
    assert Cell.model_validate({**raw, "metric": "accuracy", "num_classes": 3, "mode": "split"}).rows == "all"

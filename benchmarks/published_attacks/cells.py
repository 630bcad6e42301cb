"""The settings that published attacks are tried at: a data set of the board, a defense, its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.spec import parse

BOARD = Path(__file__).resolve().parents[2] / "board"
Setting = tuple[str, str, dict[str, Any]]

_BEATEN: dict[str, Setting] = {
    "mnist-iso-4": ("mnist", "iso", {"ratio": 4.0}),
    "mnist-gaussian-.001": ("mnist", "gaussian", {"sigma": 0.001}),
    "digits-gaussian-.01": ("digits", "gaussian", {"sigma": 0.01}),
    "digits-laplace-.01": ("digits", "laplace", {"scale": 0.01}),
    "digits-iso-4": ("digits", "iso", {"ratio": 4.0}),
    "digits-sparsification-.999": ("digits", "sparsification", {"drop": 0.999}),
    "digits-sparsification-.99": ("digits", "sparsification", {"drop": 0.99}),
    "steel_plates-sparsification-.99": ("steel_plates", "sparsification", {"drop": 0.99}),
    "covtype-sparsification-.99": ("covtype", "sparsification", {"drop": 0.99}),
}
"""Settings at which an attack by hand had found more than `default`."""
_KDK = {
    "digits": {"k": 5, "epsilon": 0.7, "anchor": "true_label"},
    "spambase": {"k": 2, "epsilon": 0.4, "anchor": "true_label"},
    "breast_cancer": {"k": 2, "epsilon": 0.4, "anchor": "true_label"},
}
_LABEL_DP = {"digits": 2.0, "spambase": 1.0, "breast_cancer": 1.0}


def _of_board(table: str) -> dict[str, Setting]:
    settings: dict[str, dict[str, Any]] = {
        "kdk": _KDK[table],
        "sgsub": {"tau": 0.5, "w_cos": 0.5},
        "mid": {"weight": 0.1},
        "gradient_compression": {"keep": 0.1},
        "label_dp": {"epsilon": _LABEL_DP[table]},
        **({} if table == "digits" else {"marvell": {"budget": 4.0}}),
    }
    return {f"{table}-{defense}": (table, defense, setting) for defense, setting in settings.items()}


CELLS: Mapping[str, Setting] = {
    **_BEATEN,
    **_of_board("digits"),
    **_of_board("spambase"),
    **_of_board("breast_cancer"),
}


def task_of(cell: str, seeds: Sequence[int]) -> Task:
    """Return the task of a cell under the board's conditions, with the attacks of `default`."""
    table, defense, _ = CELLS[cell]
    raw = yaml.safe_load((BOARD / f"{table}.yaml").read_text(encoding="utf-8"))
    raw |= {"study": "published-attacks", "defense": defense, "budget": {"seeds": len(seeds)}}
    task = open_task(parse(raw))
    return replace(task, cell=task.cell.model_copy(update={"seeds": tuple(seeds)}))

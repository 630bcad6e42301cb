"""Evaluation of one setting of a defense without a search, as the verb ``evaluate`` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from tune_vfl.data.reserve import reserve_rows, why_no_reserve
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.alone import guessed
from tune_vfl.evaluation.attempts import together_or_alone
from tune_vfl.evaluation.certainty import certainties, intervals_of
from tune_vfl.evaluation.checks import checks_of_setting, checks_of_undefended
from tune_vfl.evaluation.packs import Settings, evaluate_task
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.machine.installs import naming_the_install
from tune_vfl.machine.runtime import device_for
from tune_vfl.metrics.published import scalars
from tune_vfl.outcome import Outcome
from tune_vfl.spec import Cell, RowsUsed, StudySpec, parse
from tune_vfl.spec.cell import MEASURE
from tune_vfl.spec.raw import apply_settings, plain

EVALUATION_SCHEMA = "tune-vfl/evaluation/1"


def evaluate_spec(spec: StudySpec, *, rows: RowsUsed = "all") -> dict[str, Any]:
    """Evaluate one cell without a search and return the ``tune-vfl/evaluation/1`` answer.

    Args:
        spec: its defense's ``params`` are the setting; ``budget.seeds`` says how many seeds.
        rows: ``all``, or ``selection`` for the rows of a search.

    Raises:
        SpecError: with every problem; a domain is one, since there is no search.
    """
    if spec.searched:
        raise SpecError(
            [
                f"{name}: evaluate measures one setting, got the domain {d}; give a value"
                for name, d in spec.searched.items()
            ]
        )
    task = open_task(spec, rows=rows)
    task = replace(task, asks_training_rows=task.cell.metric == "auc")
    cell, device = task.cell, device_for(spec.resources.gpu)
    (outcome,) = together_or_alone(
        lambda some: evaluate_task(task, some, device=device), [{}], minutes=cell.trial_minutes
    )
    return {
        "schema": EVALUATION_SCHEMA,
        "dataset": cell.dataset.name,
        "measure": MEASURE,
        "rows": cell.rows,
        "data": _data_of(task),
        "model": cell.model.name,
        "mode": cell.mode,
        "federation": cell.federation.model_dump(mode="json"),
        "defense": {"name": cell.defense, "params": setting_of(cell, {})},
        "training": cell.training.model_dump(),
        "seeds": list(cell.seeds),
        **outcome.model_dump(),
        **(_sureness(outcome, task) if outcome.outcome == "ok" else {}),
    }


def _sureness(outcome: Outcome, task: Task) -> dict[str, Any]:
    """Return intervals and checks of an ok outcome."""
    (sure,) = certainties([outcome])
    checks = [*checks_of_setting(outcome, sure)]
    if task.cell.defense == "none":
        checks = [*checks_of_undefended(outcome, sure, fmean(guessed(task))), *checks]
    beside = scalars(outcome)
    attacks = {
        name: score.model_dump() | intervals_of(score) | beside[name]._asdict()
        for name, score in outcome.attacks.items()
    }
    return {"attacks": attacks, **sure.numbers(), "checks": [check.model_dump() for check in checks]}


def _data_of(task: Task) -> dict[str, Any]:
    """Return the number of rows, the number that searches reserve, and the data set's notes."""
    missing = why_no_reserve(task.dataset)
    notes = [*task.dataset.notes, *([missing] if missing and task.cell.rows != "all" else [])]
    return {"rows": len(task.dataset.y), "reserve": len(reserve_rows(task.dataset)), "notes": notes}


def setting_of(cell: Cell, params: Settings) -> dict[str, Any]:
    """Return a trial's full parameters: the defaults, the trial's, and the cell's fixed ones over them."""
    return defense_params(cell.defense, {**params, **cell.fixed}, num_classes=cell.num_classes).model_dump()


@naming_the_install()
def evaluate(
    dataset: str | Mapping[str, Any],
    *,
    defense: str = "none",
    params: Settings | None = None,
    attacks: str | Sequence[str | Mapping[str, Any]] = ("default",),
    seeds: int = 3,
    settings: Iterable[str] = (),
    rows: RowsUsed = "all",
) -> dict[str, Any]:
    """Evaluate one (dataset, defense, attacks) at one setting of the defense, as the verb ``evaluate`` does.

    Args:
        dataset: a name, or a mapping of name and options.
        defense: its name.
        params: its parameters; the ones not given take their defaults.
        attacks: names, or mappings of name and parameters; ``default`` is the portfolio of a competent adversary.
        seeds: how many seeds, from 0.
        settings: ``PATH=VALUE`` settings on the spec, such as ``training.epochs=50``.
        rows: ``all``, or ``selection``, the rows of a search: without the reserve, if the data set has one.

    Raises:
        SpecError: with every problem.
        DataError: when the data cannot be read.

    Example:
        >>> from tune_vfl import evaluate
        >>> short = ["training.epochs=1"]  # only to be quick here
        >>> found = evaluate("breast_cancer", defense="max_norm", attacks=["norm"], seeds=1, settings=short)
        >>> found["outcome"], sorted(found["attacks"]), 0.5 < found["utility"]["mean"] <= 1
        ('ok', ['norm'], True)
    """
    raw = {
        "study": "evaluate",
        "dataset": dataset,
        "defense": {"name": defense, "params": params or {}},
        "attacks": attacks,
        "budget": {"trials": 1, "seeds": seeds},
    }
    return evaluate_spec(parse(apply_settings(plain(raw), settings)), rows=rows)

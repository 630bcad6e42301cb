"""``tune-vfl evaluate``: one cell, no search."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Annotated, Any, Literal

import typer

from tune_vfl.cli.options import Json, Params, Settings, checked, merged_settings
from tune_vfl.cli.output import cell, emit, emit_json, emit_table, note, plus_minus, say
from tune_vfl.errors import SpecError, TuneVflError, UsageError

_SCALARS = {"cap": "CAP", "utility_per_leak": "test/leak AUC", "leak_per_training_auc": "leak/train AUC"}

Dataset = Annotated[str, typer.Option("--dataset", "-d", help="A data set: see `tune-vfl list datasets`.")]
Defense = Annotated[str, typer.Option("--defense", "-f", help="A defense: see `tune-vfl list defenses`.")]
Attacks = Annotated[
    list[str] | None,
    typer.Option(
        "--attack",
        "-a",
        help="An attack, or `default`, `default_features`, `thorough` for those that fit; repeatable: see "
        "`tune-vfl list attacks`. Without it: default.",
    ),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="An architecture; by default the data set's own.")]
Rows = Annotated[
    Literal["all", "selection"],
    typer.Option("--rows", help="all, or selection: without the reserve, which no search uses."),
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Train with this many seeds: 0, 1, ...")]


def evaluate(
    dataset: Dataset,
    attack: Attacks = None,
    defense: Defense = "none",
    param: Params = None,
    model: Model = None,
    seeds: Seeds = 3,
    settings: Settings = None,
    rows: Rows = "all",
    json: Json = False,
) -> None:
    """Train one setting of one defense and attack it.

    Exits 0 when there is an answer, also when that is `diverged` or `infeasible`, and 1 when the evaluation failed.

    Example: `tune-vfl evaluate --dataset breast_cancer --defense laplace -p scale=0.01 --attack norm --seeds 3`
    """
    raw = _raw(dataset, defense, attack or ["default"], model)
    said: list[str] = []
    answer = checked(raw, merged_settings(settings, param), lambda spec: _run(spec, seeds, rows, said))
    if json:
        emit_json(answer)
    else:
        _show(answer, said)
    if answer["outcome"] != "ok":
        say(f"tune-vfl: outcome {answer['outcome']}: {answer.get('reason') or 'no reason given'}")
    from tune_vfl.outcome import MACHINE_FAILURES

    if answer["outcome"] in MACHINE_FAILURES:
        raise typer.Exit(1)


def _raw(dataset: str, defense: str, attacks: list[str], model: str | None) -> dict[str, Any]:
    twice = sorted({a for a in attacks if attacks.count(a) > 1})
    if twice:
        raise UsageError(f"--attack {', '.join(twice)}: given more than once")
    raw: dict[str, Any] = {"study": "evaluate", "dataset": {"name": dataset}, "defense": {"name": defense}}
    if model:
        raw["model"] = {"name": model}
    return {**raw, "attacks": list(attacks)}


def _run(raw: dict[str, Any], seeds: int, rows: Literal["all", "selection"], said: list[str]) -> dict[str, Any]:
    from tune_vfl.data import load
    from tune_vfl.driver.planning import read_study
    from tune_vfl.evaluation import evaluate_spec
    from tune_vfl.samplers.base import unknown_sampler

    budget = raw.get("budget")
    raw["budget"] = {**(budget if isinstance(budget, dict) else {}), "seeds": seeds}
    spec = read_study(raw)
    if problems := unknown_sampler(spec.sampler.name):
        raise SpecError(problems)
    with suppress(TuneVflError):  # which is reported below, with all other problems
        said += load(spec.dataset).notes
    for sentence in said:  # before the training, which may take long
        note(sentence)
    return evaluate_spec(spec, rows=rows)


def _show(answer: dict[str, Any], said: Collection[str]) -> None:
    defense = answer["defense"]
    params = f" ({cell(defense['params'])})" if defense["params"] else ""
    clients = answer["federation"].get("clients")
    among = f"{clients} clients, {answer['federation']['rounds']} rounds, " if clients else ""
    emit(
        f"{answer['dataset']}, {among}model {answer['model']}, defense {defense['name']}{params}, "
        f"{len(answer['seeds'])} seeds"
    )
    utility = answer.get("utility")
    if utility:
        emit(f"utility: {utility['metric']} {plus_minus(utility['mean'], utility['std'])}")
    if answer.get("leakage") is not None:
        emit(f"leakage: {answer['leakage']:.3f} (the largest advantage over what needs no federation)")
    if answer.get("attacks"):
        scores = answer["attacks"].values()
        scalars = {key: head for key, head in _SCALARS.items() if any(s.get(key) is not None for s in scores)}
        head = ("attack", "metric", "success", "floor", "advantage", *scalars.values(), "variant", "remarks")
        emit_table(head, _rows(answer["attacks"], list(scalars)))
        for floor, by in dict.fromkeys((s["floor"], s["floor_by"]) for s in scores if s["floor_by"]):
            emit(f"floor {floor:.3f}: {by}")
    for name, why in answer.get("not_needed", {}).items():
        emit(f"{name} was not needed: {why}")
    for sentence in dict.fromkeys([*answer.get("data", {}).get("notes", ()), *answer.get("notes", ())]):
        if sentence not in said:
            note(sentence)


def _rows(attacks: dict[str, dict[str, Any]], scalars: list[str]) -> list[list[object]]:
    rows: list[list[object]] = []
    for name, score in attacks.items():
        flags = {"upper_bound": "upper bound", "weak_attack": "weaker than without a federation"}
        remarks = ", ".join(text for key, text in flags.items() if score.get(key))
        success = plus_minus(score["mean"], score["std"])
        beside = [score.get(key) for key in scalars]
        numbers = [success, score["floor"], score["advantage"], *beside]
        rows.append([name, score["metric"], *numbers, score.get("variant"), remarks])
    return rows

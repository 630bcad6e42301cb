"""``tune-vfl data``: what a data set holds, before anything is trained on it; and how to get one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Settings, checked
from tune_vfl.cli.output import emit, emit_json, emit_table, say
from tune_vfl.errors import SpecError, UsageError

if TYPE_CHECKING:
    from tune_vfl.data.check import Facts, PartyFacts
    from tune_vfl.spec import Named

SCHEMA = "tune-vfl/data/1"
MOST_COLUMNS = 40

Spec = Annotated[Path | None, typer.Argument(metavar="[SPEC]", help="A YAML spec; only its dataset is read.")]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", "-d", help="A data set instead of a spec, with options as --set dataset.path=my.csv."),
]

app = typer.Typer(help="Your data: check; public data: fetch.", no_args_is_help=True)


def add_to(parent: typer.Typer) -> None:
    """Add the verbs."""
    parent.add_typer(app, name="data")


@app.callback()
def _data() -> None:
    """Your data: check what a spec makes of it; public data: fetch."""


@app.command("check")
def check(
    spec: Spec = None,
    dataset: Dataset = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Load the data of a spec and say what they hold: rows, classes, columns by party, and what looks wrong.

    What was dropped is told, and any column that predicts the label alone, as one that was made from the label does.
    Trains nothing and writes nothing.

    Example: `tune-vfl data check study.yaml`
    """
    if (spec is None) == (dataset is None):
        raise UsageError("data check: expected a SPEC, the path of a YAML file, or --dataset NAME, one of them")
    facts = checked(_raw(spec, dataset), settings or (), lambda raw: _examined(raw, str(spec or "--dataset")))
    if json:
        emit_json({"schema": SCHEMA, "datasets": [asdict(f) for f in facts]})
    for one in facts:
        if not json:
            _show(one)
        for warning in one.warnings:
            say(f"warning: {warning}")


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="DATASET", help="The name of a public data set.")],
) -> None:
    """Download the official files of a data set to TUNE_VFL_DATA, where torchvision or scikit-learn offers them.

    Nothing else ever downloads data. Where neither offers it, the answer says where it can be had.

    Example: `tune-vfl data fetch mnist`
    """
    from tune_vfl.data import data_root
    from tune_vfl.data.base import DATASETS

    emit(str(DATASETS[name]().fetch(data_root())))


def _raw(spec: Path | None, dataset: str | None) -> Mapping[str, Any]:
    from tune_vfl.spec.raw import read_yaml

    return {"dataset": {"name": dataset}} if spec is None else read_yaml(spec)


def _examined(raw: Mapping[str, Any], place: str) -> list[Facts]:
    from tune_vfl.data import load
    from tune_vfl.data.check import examine

    return [examine(load(named)) for named in _datasets(raw, place)]


def _datasets(raw: Mapping[str, Any], place: str) -> list[Named]:
    from pydantic import ValidationError

    from tune_vfl.spec import Named, explain
    from tune_vfl.spec.listed import as_list

    matrix = raw.get("matrix")
    asked = as_list({**raw, **(matrix if isinstance(matrix, dict) else {})}.get("dataset"))
    if not isinstance(asked, list) or not asked or not all(isinstance(entry, (str, Mapping)) for entry in asked):
        raise SpecError(
            f"{place}: dataset: expected a name, or a mapping with name and options, or a list of them, got {asked!r}"
        )
    try:
        return [Named.model_validate(entry) for entry in asked]
    except ValidationError as error:
        raise SpecError([f"{place}: dataset: {problem}" for problem in explain(error, Named)]) from error


def _show(facts: Facts) -> None:
    official = "its own test rows" if facts.official_test else f"the split of seed {facts.seed}"
    emit(
        f"{facts.name}: {facts.rows:,} rows, {len(facts.classes)} classes, metric {facts.metric}; "
        f"{facts.train:,} training and {facts.test:,} test rows ({official})"
    )
    emit_table(
        ("class", "rows", "share", "training", "test"),
        [[c.name, c.rows, f"{c.share:.1%}", c.train, c.test] for c in facts.classes],
    )
    emit_table(
        ("party", "part", "columns", "inputs", "numbers", "codes", "categories", "with missing"),
        [_party_row(party, facts.modality) for party in facts.parties],
    )
    rows = [
        [c.name, party.name, c.kind, c.width, f"{c.missing:.1%}" if c.missing else "-", c.alone]
        for party in facts.parties
        for c in party.columns
    ]
    if rows:
        alone = {"auc": "AUC alone", "balanced_accuracy": "balanced accuracy alone"}[facts.alone_measure]
        emit_table(("column", "party", "kind", "inputs", "missing", alone), rows[:MOST_COLUMNS])
    if len(rows) > MOST_COLUMNS:
        emit(f"... and {len(rows) - MOST_COLUMNS} more columns; --json lists all")
    for note in facts.notes:
        emit(f"note: {note}")


def _party_row(party: PartyFacts, modality: str) -> list[object]:
    inputs = " x ".join(str(n) for n in party.shape)
    if not party.columns:
        return [party.name, party.role, modality, inputs, None, None, None, None]
    kinds = [c.kind for c in party.columns]
    counts = [kinds.count(kind) for kind in ("number", "code", "category")]
    return [party.name, party.role, len(kinds), inputs, *counts, sum(c.missing > 0 for c in party.columns)]

"""``tune-vfl data``: describe a data set before any training, and download one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Settings, checked
from tune_vfl.cli.output import as_yaml, emit, emit_json, note, say
from tune_vfl.errors import SpecError, UsageError

if TYPE_CHECKING:
    from tune_vfl.data.check import Facts
    from tune_vfl.spec import Named

SCHEMA = "tune-vfl/data/1"

Spec = Annotated[Path | None, typer.Argument(metavar="[SPEC]", help="A YAML spec; only its dataset is read.")]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", "-d", help="A data set instead of a spec, with options as --set dataset.path=my.csv."),
]

_TABLES = frozenset({".csv", ".tsv", ".txt", ".parquet", ".pq"})

app = typer.Typer(help="Your data: check; public data: fetch.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Check your data before a search, or download public data."""


@app.command("check")
def check(
    spec: Spec = None,
    dataset: Dataset = None,
    settings: Settings = None,
    every: Annotated[bool, typer.Option("--all", help="Show all columns, not the worst that fit a screen.")] = False,
    json: Json = False,
) -> None:
    """Load the data of a spec and describe them: rows, classes, columns by party, and suspicious columns.

    Columns that predict the label alone, identifiers, dates, constants: the worst first, with an `exclude` list to
    paste into the spec. Trains nothing and writes nothing.

    Example: `tune-vfl data check study.yaml`
    """
    from tune_vfl.cli.data_shown import show
    from tune_vfl.spec.raw import read_yaml

    if spec is not None and _is_table(spec):
        raise UsageError(_not_a_spec(spec))
    if (spec is None) == (dataset is None):
        raise UsageError("data check: expected a SPEC, the path of a YAML file, or --dataset NAME, one of them")
    raw = {"dataset": {"name": dataset}} if spec is None else read_yaml(spec, note)
    facts = checked(raw, settings or (), lambda raw: _examined(raw, str(spec or "--dataset")))
    if json:
        emit_json({"schema": SCHEMA, "datasets": [asdict(f) for f in facts]})
    for one in facts:
        if not json:
            show(one, every=every)
        for warning in one.warnings:
            say(f"warning: {warning}")


@app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(metavar="DATASET", help="The name of a public data set.")]) -> None:
    """Download the official files of a data set to TUNE_VFL_DATA, where torchvision or scikit-learn offers them.

    Nothing else ever downloads data. Where neither offers it, the answer says where it can be had.

    Example: `tune-vfl data fetch mnist`
    """
    from tune_vfl.data import data_root
    from tune_vfl.data.base import DATASETS

    emit(str(DATASETS[name]().fetch(data_root())))


def _examined(raw: Mapping[str, Any], place: str) -> list[Facts]:
    from tune_vfl.data import load
    from tune_vfl.data.check import examine
    from tune_vfl.data.loading import excluded, merged

    return [examine(load(n), excluded=excluded(n), merged=merged(n)) for n in _datasets(raw, place)]


def _is_table(path: Path) -> bool:
    from tune_vfl.data.reading.first_bytes import is_packed
    from tune_vfl.data.reading.parquet import is_columnar

    return path.suffix.lower() in _TABLES or (path.is_file() and (is_packed(path) or is_columnar(path)))


def _not_a_spec(table: Path) -> str:
    """Say how to check a table for which there is no spec yet."""
    from tune_vfl.data.reading.table import header
    from tune_vfl.errors import shortened
    from tune_vfl.spec.raw import parse_value

    columns = f"; its columns: {shortened(header(table))}" if table.is_file() else ""
    dataset = as_yaml({"name": "csv", "path": str(table), "label": "COLUMN"}, default_flow_style=True, sort_keys=False)
    path = str(table) if parse_value(str(table), ["dataset", "path"]) == str(table) else dumps(str(table))
    return (
        f"data check: {table} is a table and no spec; give a spec whose dataset is {dataset}, or --dataset csv --set "
        f"{shlex.quote(f'dataset.path={path}')} --set dataset.label=COLUMN{columns}"
    )


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

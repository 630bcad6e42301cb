"""``tune-vfl optuna``: a study as an Optuna storage, for optuna-dashboard and other code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import emit, emit_json, say
from tune_vfl.machine.places import sqlite_uri

SCHEMA = "tune-vfl/optuna/1"


def optuna(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new sqlite file.")],
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Write a study's finished trials as an Optuna storage; of a campaign, an Optuna study for each of its studies.

    Values are utility, to be maximized, and leakage, to be minimized. What did not end ok is a failed trial.

    Example: `tune-vfl optuna kdk-bank kdk-bank.db`, then `optuna-dashboard sqlite:///kdk-bank.db`
    """
    from tune_vfl.service.optuna_copy import copy_to_optuna

    written = copy_to_optuna(name, file, storage)
    if json:
        emit_json({"schema": SCHEMA, "file": str(file), "trials": written})
        return
    for study, trials in written.items():
        emit(f"{file}: study {study}, {trials} trials")
    say(f"look at it: optuna-dashboard {sqlite_uri(file)}")

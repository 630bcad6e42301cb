"""``tune-vfl report``: an HTML page, figures and tables of one or more studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Storage
from tune_vfl.cli.output import emit, emit_json, note, say

SCHEMA = "tune-vfl/report/1"


def report(
    studies: Annotated[
        list[str], typer.Argument(metavar="STUDY...", help="One study, or several to lay side by side.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="By default TUNE_VFL_HOME/reports/STUDY.")
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures", help="Show what attacks on features make of images: trains two models a data set, one seed."
        ),
    ] = False,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Write a self-contained HTML page, PNG and SVG figures, and CSV, Markdown and LaTeX tables.

    Example: `tune-vfl report kdk-bank laplace-bank -o report/`
    """
    from tune_vfl.service.reporting import report_studies

    names = list(dict.fromkeys(studies))
    page = report_studies(names, out, storage, pictures=pictures, note=note)
    if json:
        emit_json({"schema": SCHEMA, "studies": names, "page": str(page)})
    else:
        emit(str(page))
        say("open it in a browser; it needs nothing else")

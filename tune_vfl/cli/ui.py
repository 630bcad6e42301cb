"""``tune-vfl ui``: the MLflow UI on loopback."""

from __future__ import annotations

from typing import Annotated

import typer

from tune_vfl.cli.output import say


def ui(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where to listen on 127.0.0.1.")] = 5000,
    tracking: Annotated[
        str | None,
        typer.Option(
            "--tracking", metavar="URI", help="By default MLFLOW_TRACKING_URI, else the database in TUNE_VFL_HOME."
        ),
    ] = None,
) -> None:
    """Show the MLflow UI on 127.0.0.1 until Ctrl-C. The link that is printed has the password, another one each time.

    Example: `tune-vfl ui --port 5001`
    """
    from tune_vfl.tracking.ui import serve

    raise typer.Exit(serve(tracking, port, ready=_tell))


def _tell(link: str) -> None:
    say(
        f"MLflow, for you alone: {link}\nChoose 'Model training' at its upper left once: experiments then open on "
        "their runs.\nThe links under an experiment's name lead to its front, page and summary. Ctrl-C ends it."
    )

"""``tune-vfl board``: entries of the board of defenses from the ledger, and the pages of all entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import emit, emit_json, say

SCHEMA = "tune-vfl/board/1"

Board = Annotated[
    Path, typer.Option("--board", metavar="DIR", help="The board: a spec and a folder of entries for each data set.")
]

app = typer.Typer(
    help="The board of defenses: add what a search found, write the page of all entries.", no_args_is_help=True
)


@app.command("add")
def add(name: Name, board: Board = Path("board"), storage: Storage = None, json: Json = False) -> None:
    """Write an entry of the board for a study, or for each study of a campaign.

    It must have been searched under the board's conditions, from `board/DATASET.yaml`; of these only the defense, its
    space, the name and the number of trials may be changed. What was confirmed is confirmed in the entry.

    Example: `tune-vfl search board/digits.yaml --set defense=kdk --set study=my-kdk && tune-vfl board add my-kdk`
    """
    from tune_vfl.service.board import add as add_entries

    files = [str(path) for path in add_entries(name, board, storage)]
    if json:
        emit_json({"schema": SCHEMA, "name": name, "entries": files})
    else:
        emit("\n".join(files))
        say("`tune-vfl board write` writes the page of all entries")


@app.command("write")
def write(
    board: Board = Path("board"),
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where to write the page.")] = Path("docs"),
    json: Json = False,
) -> None:
    """Write board.md, board.csv, board-page.html and a figure for each data set, from all entries.

    Example: `tune-vfl board write -o docs`
    """
    from tune_vfl.service.board import write as write_pages

    files = [str(path) for path in write_pages(board, out)]
    if json:
        emit_json({"schema": SCHEMA, "files": files})
    else:
        emit("\n".join(files))

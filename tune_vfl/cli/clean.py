"""``tune-vfl clean``: remove what nothing uses any more."""

from __future__ import annotations

from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Storage
from tune_vfl.cli.output import emit, emit_json, emit_table, say

SCHEMA = "tune-vfl/clean/1"


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Remove what nothing uses any more: temporary files of killed runs, old caches, deleted runs, their artifacts.

    Free pages of the ledger and of MLflow's database are given back. Studies, reports and data sets stay; while a
    search runs, so does all that it may need.

    Example: `tune-vfl clean --dry-run`
    """
    from tune_vfl.service import cleaning

    done = cleaning.clean(storage, dry_run=dry_run)
    if json:
        removed = [{"kind": waste.kind, "path": str(waste.path), "bytes": waste.size} for waste in done.waste]
        emit_json({"schema": SCHEMA, "dry_run": dry_run, "removed": removed, "bytes": done.size, "left": done.left})
        return
    if done.waste:
        emit_table(("what", "bytes", "where"), [(waste.kind, waste.size, str(waste.path)) for waste in done.waste])
    emit(f"{'would remove' if dry_run else 'removed'} {done.size} bytes")
    for sentence in done.left:
        say(f"not removed: {sentence}")

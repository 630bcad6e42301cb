"""``tune-vfl study pack`` and ``study unpack``: a study as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tune_vfl.cli.options import Json, Storage, StudyName
from tune_vfl.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from tune_vfl.ledger.parcel import Parcel

SCHEMA = "tune-vfl/parcel/1"
STDOUT = Path("-")
DONE = {
    "new": "is in the ledger now",
    "grown": "was in the ledger with less, and holds all of it now",
    "same": "was in the ledger already, with all of this: nothing was changed",
}

NewName = Annotated[str | None, typer.Option("--name", help="Call the study this here.")]

app = typer.Typer(help="A study as one file: pack, unpack.", no_args_is_help=True)


def add_to(parent: typer.Typer) -> None:
    """Add the verbs."""
    parent.add_typer(app, name="study")


@app.command("pack")
def pack(
    study: StudyName,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="By default STUDY.study; - prints it, as text."),
    ] = None,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Write a study into one file: its spec, trials, confirmation and the data's fingerprint, without the data.

    Every verb reads it after `study unpack`, on any machine. One that is being run is packed as it stands.

    Example: `tune-vfl study pack kdk-bank -o kdk-bank.study`
    """
    from tune_vfl.ledger.parcel_file import to_bytes, to_text
    from tune_vfl.machine.files import written_whole
    from tune_vfl.service.parcels import pack_study

    parcel = pack_study(study, storage)
    content = to_bytes(parcel)
    if out == STDOUT:
        emit(to_text(content).rstrip("\n"))
        return
    path = out or Path(f"{study}.study")
    with written_whole(path) as draft:
        draft.write_bytes(content)
    if json:
        emit_json(
            {"schema": SCHEMA, "study": parcel.name, "did": "packed", "trials": len(parcel.trials), "file": str(path)}
        )
    else:
        emit(f"{path}: study {parcel.name}, {len(parcel.trials)} trials, {len(content)} bytes")


@app.command("unpack")
def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `study pack` wrote.")],
    name: NewName = None,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Put a packed study into the ledger, under its own name or another; another study is never overwritten.

    A study that is there with less, as it was packed before, is brought up to what the file holds.

    Example: `tune-vfl study unpack kdk-bank.study --name kdk-bank-lab`
    """
    from tune_vfl.ledger.parcel_file import read_parcel

    put_here(read_parcel(file), name, storage, json=json)


def put_here(parcel: Parcel, name: str | None, storage: str | None, *, json: bool) -> None:
    """Put a study into the ledger and print what was done.

    Args:
        parcel: the study.
        name: what to call it here, if not as it is called.
        storage: the ledger.
        json: print it as JSON.
    """
    from tune_vfl.service.parcels import unpack_study

    if name is not None:
        parcel = parcel.named(name)
    did, record = unpack_study(parcel, storage)
    trials = record.by_outcome()
    if json:
        emit_json({"schema": SCHEMA, "study": parcel.name, "did": did, "trials": trials})
        return
    counts = ", ".join(f"{count} {outcome}" for outcome, count in trials.items() if count) or "no trials"
    emit(f"study {parcel.name} {DONE[did]}: {counts}")
    say(f"look at it: tune-vfl report {parcel.name}")

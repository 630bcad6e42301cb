"""``tune-vfl study``: pack a study or a campaign into a file, unpack it, delete it; back up the ledger."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.analysis.formatting import counted
from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import emit, emit_json, say
from tune_vfl.errors import UsageError

if TYPE_CHECKING:
    from tune_vfl.records.packed import Packed
    from tune_vfl.service.removal import Removed

SCHEMA = "tune-vfl/parcel/1"
REMOVED_SCHEMA = "tune-vfl/removed/1"
BACKUP_SCHEMA = "tune-vfl/backup/1"
STDOUT = Path("-")
DONE = {
    "new": "is in the ledger now",
    "same": "was in the ledger already, the very same: nothing was changed",
}

MAX_MIB = 64
MaxMib = Annotated[int, typer.Option("--max-mib", metavar="N", min=1, help="Read no more than N MiB, unpacked.")]
NewName = Annotated[str | None, typer.Option("--name", help="Call the study or campaign this here.")]

app = typer.Typer(
    help="A study or a campaign: pack into one file, unpack, rm; back up all of them.", no_args_is_help=True
)


@app.command("pack")
def pack(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="By default NAME.study; - prints it, as text."),
    ] = None,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Write a study or a whole campaign into one file: specs, trials, confirmations and the data's fingerprints.

    No rows of data are in it. Every verb reads it after `study unpack`, on any machine. What is being run is packed as
    it stands; a part of a campaign, packed by its own name, is a lone study in the file.

    Example: `tune-vfl study pack kdk-bank -o kdk-bank.study`
    """
    from tune_vfl.ledger import packing
    from tune_vfl.machine.files import is_stdout, written_out
    from tune_vfl.records.packed_file import to_bytes, to_text

    packed = packing.pack(name, storage)
    content = to_bytes(packed)
    if out == STDOUT:
        emit(to_text(content).rstrip("\n"))
        return
    path = out or Path(f"{name}.study")
    with written_out(path) as draft:
        draft.write_bytes(content)
    trials = len(packed.trials)
    told = f"{path}: {_called(packed).rstrip(',')}, {trials} trials, {len(content)} bytes"
    if is_stdout(path):
        say(told)
    elif json:
        emit_json({"schema": SCHEMA, **_named(packed), "did": "packed", "trials": trials, "file": str(path)})
    else:
        emit(told)


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Copy the whole ledger into a file that only you can read, also while searches run.

    The copy is a ledger: `--storage FILE` reads it, and put in the place of a lost one it replaces that. For a ledger
    on a PostgreSQL server the answer is the command of pg_dump.

    Example: `tune-vfl study backup monday.db`
    """
    from tune_vfl.service.backup import back_up

    studies = back_up(file, storage)
    if json:
        emit_json({"schema": BACKUP_SCHEMA, "file": str(file), "studies": studies, "bytes": file.stat().st_size})
    else:
        emit(f"{file}: {studies} studies, {file.stat().st_size} bytes")


@app.command("unpack")
def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `study pack` wrote.")],
    name: NewName = None,
    max_mib: MaxMib = MAX_MIB,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Put a packed study or campaign into the ledger, under its own name or another; nothing else is overwritten.

    The very same is left alone; a study of its name with more or fewer trials is refused, and `--name NEW` puts what
    comes beside it. With `--name NEW` the studies of a campaign are called NEW-DATASET-DEFENSE.

    Example: `tune-vfl study unpack kdk-bank.study --name kdk-bank-lab`
    """
    from tune_vfl.records.packed_file import read_packed

    put_here(read_packed(file, max_mib * 2**20), name, storage, json=json)


def put_here(packed: Packed, name: str | None, storage: str | None, *, json: bool) -> None:
    """Import a study or a campaign into the ledger and print the result.

    Args:
        packed: the study or campaign.
        name: what to call it here, if not as it is called.
        storage: the ledger.
        json: print it as JSON.
    """
    from tune_vfl.service.projecting import unpack_here

    if name is not None:
        packed = packed.named(name)
    did, record = unpack_here(packed, storage)
    trials = record.by_outcome()
    if json:
        emit_json({"schema": SCHEMA, **_named(packed), "did": did, "trials": trials})
        return
    emit(f"{_called(packed)} {DONE[did]}: {counted(trials)}")
    say(f"look at it: tune-vfl report {packed.name}")


def _named(packed: Packed) -> dict[str, Any]:
    if packed.campaign is None:
        return {"study": packed.name}
    return {"campaign": packed.name, "studies": [study.name for study in packed.studies]}


def _called(packed: Packed) -> str:
    if packed.campaign is None:
        return f"study {packed.name}"
    return f"campaign {packed.name}, {len(packed.studies)} studies,"


@app.command("rm")
def rm(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Studies and campaigns.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Remove studies and campaigns for good: from the ledger, their runs in MLflow, reports, copies of their data.

    It asks first. What somebody runs is refused. A part of a campaign, by its own name, is taken out of the campaign,
    which goes on without it. A tracking server keeps what is deleted until `mlflow gc` there. Packed files and exported
    settings stay.

    Example: `tune-vfl study rm kdk-bank kdk-bank-2`
    """
    from tune_vfl.service import removal

    found = removal.look(names, storage)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "study rm asks before it removes, and there is no terminal to answer on: --yes removes without asking. "
                f"To be removed: {'; '.join(map(str, found))}"
            )
        for one in found:
            say(str(one))
        if not typer.confirm("Remove for good, with runs in MLflow and reports?", err=True):
            say("nothing was removed")
            raise typer.Exit(1)
    told = []
    for one in found:
        removed = removal.remove(one)
        told.append(_told(removed))
        if not json:
            _show(removed)
    if json:
        emit_json({"schema": REMOVED_SCHEMA, "removed": told})


def _told(removed: Removed) -> dict[str, Any]:
    gone = removed.of
    return {
        "name": gone.name,
        "studies": list(gone.studies),
        "trials": gone.trials,
        "runs": removed.runs,
        "reports": [str(report) for report in removed.reports],
        "data": [str(copy) for copy in removed.data],
        "left": removed.left,
    }


def _show(removed: Removed) -> None:
    gone = [f"{removed.runs} runs in MLflow"] if removed.runs else []
    gone += [f"report {report}" for report in removed.reports]
    gone += [f"data {copy}" for copy in removed.data]
    emit(f"removed {removed.of}" + (f"; {', '.join(gone)}" if gone else ""))
    for sentence in removed.left:
        say(f"not removed: {sentence}")

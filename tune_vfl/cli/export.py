"""``tune-vfl export``: one setting of a front, for other people's training loops."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import cell, emit, emit_json, say


def export(
    name: Name,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Where to write the configuration.")],
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            help="knee, max-utility, min-leakage, decision, trial=21, STUDY#21, a defense, or conditions: "
            '"leakage<=0.2 and utility_loss<=0.01". By default the decision: the setting to deploy, if there is one.',
        ),
    ] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Of a campaign: on which data set.")] = None,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Export the setting to deploy; `tune_vfl.load_config(FILE)` reads it without Ray or MLflow.

    Where none is recommended, as without a limit on what may leak, --select chooses; the refusal names the settings.

    Of a campaign one setting of all its defenses is chosen. Of what was confirmed it is one that stayed, by its numbers
    on fresh seeds. A condition such as "leakage<=0.2" must hold with 90% confidence.

    The file holds the training and the model of that trial too, also where they were searched.

    Example: `tune-vfl export kdk-bank --select "leakage<=0.2" -o best.json`
    """
    from tune_vfl.analysis.exporting import export as write
    from tune_vfl.machine.files import is_stdout
    from tune_vfl.service.studies import campaign_record

    written = write(campaign_record(name, storage), select, out, dataset)
    told = f"{written.study}, trial {written.trial}: {written.defense.name} {cell(written.defense.params)}"
    if is_stdout(out):
        say(told)
    elif json:
        emit_json(written.model_dump(mode="json", by_alias=True))
    else:
        emit(told)
        if written.measured.confirmed is None:
            say(f"note: not confirmed: `tune-vfl confirm {name}` measures the front again with fresh seeds")
        say(f"wrote {out}")

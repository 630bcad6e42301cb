"""``tune-vfl export``: one setting of a front, for other people's training loops."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Storage, StudyName
from tune_vfl.cli.output import cell, emit, emit_json, say


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export")(export)


def export(
    study: StudyName,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Where to write the configuration.")],
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            help="knee, max-utility, min-leakage, decision (the default where there are constraints), a defense, "
            'STUDY#21, trial=21, or conditions: "leakage<=0.2 and utility_loss<=0.01".',
        ),
    ] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="On which of a campaign's data sets.")] = None,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Export the best setting; `tune_vfl.load_config(FILE)` reads it without Ray or MLflow.

    Of what was confirmed, a setting that stayed is chosen, by its numbers on fresh seeds. A condition such as
    "leakage<=0.2" must hold surely, with the spec's confidence (90%).

    The file holds the training and the model of that trial too, also where they were searched.

    Example: `tune-vfl export kdk-bank --select "leakage<=0.2" -o best.json`
    """
    import json as reader

    from tune_vfl.campaign.campaign import export as write
    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.service.studies import open_named

    found = open_named(study, storage).record()
    write(found if isinstance(found, CampaignRecord) else CampaignRecord.of(found), select, out, dataset)
    written = reader.loads(out.read_text(encoding="utf-8"))
    if json:
        emit_json(written)
    else:
        trial = f"trial {written['trial']}" if written["study"] == study else f"{written['study']}#{written['trial']}"
        emit(f"{trial}: {written['defense']['name']} {cell(written['defense']['params'])}")
        if "confirmed" not in written["measured"]:
            say(f"note: not confirmed: `tune-vfl confirm {study}` measures the front again with fresh seeds")
        say(f"wrote {out}")

"""``tune-vfl doctor``: checks the machine, the ledger, the tracking server and the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Storage
from tune_vfl.cli.output import emit_json, emit_table, say

SCHEMA = "tune-vfl/doctor/1"


def doctor(
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="First free damaged rows and trials that died with their search, say what is lost, rebuild MLflow.",
        ),
    ] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="First bring a ledger of an earlier version up to this one's tables.")
    ] = False,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Check the machine and services that searches need. Exits 0 when all is well, 1 with findings, 4 without answer.

    Example: `tune-vfl doctor --repair`
    """
    from tune_vfl.service import ledger_health
    from tune_vfl.service import repair as repairs
    from tune_vfl.service.health import examine, exit_code

    done = [ledger_health.migrate(storage)] if migrate else []
    done += repairs.repair(say, storage) if repair else []
    checks = [*examine(storage), *done]
    if json:
        emit_json({"schema": SCHEMA, "checks": [check._asdict() for check in checks]})
    else:
        emit_table(("check", "status", "found"), [[check.name, check.status, check.detail] for check in checks])
        for check in checks:
            if check.advice:
                say(f"{check.name}: {check.advice}")
    raise typer.Exit(exit_code(checks))

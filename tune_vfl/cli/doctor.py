"""``tune-vfl doctor``: checks the machine, the ledger, the tracking server and the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from tune_vfl.cli.options import Json, Storage
from tune_vfl.cli.output import emit_json, emit_table, say
from tune_vfl.service.checks import Health

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
    from tune_vfl.service.health import examine, exit_code

    done = _migrated(storage) if migrate else []
    done += _repaired(storage) if repair else []
    checks = [*examine(storage), *done]
    if json:
        emit_json({"schema": SCHEMA, "checks": [check._asdict() for check in checks]})
    else:
        _show(checks)
    raise typer.Exit(exit_code(checks))


def _migrated(storage: str | None) -> list[Health]:
    from tune_vfl.service.ledger_health import migrate

    return [migrate(storage)]


def _repaired(storage: str | None) -> list[Health]:
    from tune_vfl.service.repair import repair

    return repair(say, storage)


def _show(checks: list[Health]) -> None:
    emit_table(("check", "status", "found"), [[check.name, check.status, check.detail] for check in checks])
    for check in checks:
        if check.advice:
            say(f"{check.name}: {check.advice}")

"""``tune-vfl validate``: check a spec, print it resolved, and estimate its cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Settings
from tune_vfl.cli.output import as_yaml, cell, emit, emit_json, note
from tune_vfl.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.records.campaigns import PlannedCampaign
    from tune_vfl.records.plans import PlannedStudy

SCHEMA = "tune-vfl/validation/1"


def validate(
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC", help="A YAML spec.")] = None,
    settings: Settings = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of a spec, for editors.")] = False,
    json: Json = False,
) -> None:
    """Check a spec and print it resolved, with its cost. Runs nothing but an epoch or two, to tell the time.

    Of a campaign a line a study is printed; `--json` has all of each.

    Example: `tune-vfl validate study.yaml --set budget.trials=100`
    """
    if schema:
        from tune_vfl.samplers.base import SAMPLERS
        from tune_vfl.spec import json_schema

        emit_json(json_schema(SAMPLERS.names()))
        return
    if spec is None:
        raise UsageError("validate: expected a SPEC, the path of a YAML file (or --schema)")
    from tune_vfl.cli.plan import read_plan

    plan = read_plan(spec, settings or ())
    _refuse_what_search_refuses(plan)
    if json:
        emit_json(answer(plan))
    elif plan.lone:
        _show(plan)
    else:
        from tune_vfl.cli.plan_shown import show_campaign
        from tune_vfl.service.estimates import progress_of, training_minutes

        progress = progress_of(plan)
        studies = {planned.name: _study(planned) for planned in plan.studies}
        show_campaign(plan, studies, progress, training_minutes(plan, progress))


def _refuse_what_search_refuses(plan: PlannedCampaign) -> None:
    """Refuse names that other specs have, and packs that have no room here."""
    from tune_vfl.execution.ray_session import require_room
    from tune_vfl.machine.passwords import server_of
    from tune_vfl.service.studies import refuse_taken_names

    spec = plan.studies[0].spec
    require_room(spec.resources)
    server = server_of(spec.storage) if spec.storage else None
    if server is not None and not server.is_own:  # what is printed says that nothing is sent there
        return
    try:
        refuse_taken_names(plan)
    except UnreachableError as error:
        note(f"whether another study has this name is not known: {error}")


def answer(plan: PlannedCampaign) -> dict[str, Any]:
    """Return the JSON answer: each study resolved with its cost, and the impossible pairs with the reasons."""
    studies = [_study(planned) for planned in plan.studies]
    return {"schema": SCHEMA, "studies": studies, "skipped": [asdict(entry) for entry in plan.skipped]}


def _study(planned: PlannedStudy) -> dict[str, Any]:
    from tune_vfl.cli.plan import cost
    from tune_vfl.data import load
    from tune_vfl.data.loading import large
    from tune_vfl.data.reserve import reserve_rows, why_no_reserve
    from tune_vfl.machine.passwords import hide_password
    from tune_vfl.service.estimates import price

    spec = planned.spec.model_dump(mode="json")
    resolved = planned.cell.model_dump(mode="json")
    resolved.pop("trial_minutes", None)
    costs = cost(planned)
    for name in planned.space.ordinary:
        part, _, field = name.partition(".")
        resolved[part][field] = costs["space"][name]
    kept = {name: spec[name] for name in ("budget", "sampler", "resources", "storage", "tracking")}
    for place in ("storage", "tracking"):
        kept[place] = hide_password(kept[place]) if kept[place] and "://" in kept[place] else kept[place]
    dataset = load(planned.cell.dataset)
    notes = [*dataset.notes, *filter(None, [why_no_reserve(dataset)])]
    if large(planned.cell.dataset, len(dataset.y)):
        notes.append(large(planned.cell.dataset, len(dataset.y), price(planned)))
    data = {"rows": len(dataset.y), "reserve": len(reserve_rows(dataset)), "notes": notes}
    answer = {"study": planned.name, "resolved": {**resolved, **kept}, "data": data, "cost": costs}
    return {**answer, "environment": _environment(spec)}


def _environment(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the servers that a spec names, the variable that each gets as a password, and whether it is the user's."""
    from tune_vfl.machine.passwords import server_of

    named = {place: server_of(spec[place]) for place in ("storage", "tracking") if spec[place]}
    return [
        {"field": place, "variable": server.variable, "host": server.host, "own": server.is_own}
        for place, server in named.items()
        if server is not None
    ]


def _show(plan: PlannedCampaign) -> None:
    for planned in plan.studies:
        study = _study(planned)
        emit(f"# {study['study']}")
        emit(as_yaml(study["resolved"], sort_keys=False))
        rows = f"{study['data']['rows']} rows, {study['data']['reserve']} of them set aside for confirm"
        emit("\n".join(f"# data: {said}" for said in (rows, *study["data"]["notes"])))
        for sent in study["environment"]:
            refused = "" if sent["own"] else ", which is refused here: TUNE_VFL_HOSTS does not name that host"
            emit(f"# environment: {sent['field']} sends {sent['variable'] or 'no variable'} to {sent['host']}{refused}")
        emit(f"# cost: {_cost_line(study['cost'], planned.cell.federation.pass_name)}\n")


def _cost_line(cost: dict[str, Any], one: str) -> str:
    """Return the cost in words; ``one`` is what a pass over the rows is called."""
    size = "infinitely many" if cost["space_size"] is None else cost["space_size"]
    searched = ", ".join(cost["space"]) or "nothing"
    baseline = f" with {cell(cost['baseline'])}" if cost["baseline"] else ""
    passes = f"{cost['trials']} trials x {cell(cost['seeds'])} seeds x {cost['epochs']} {one}s"
    return (
        f"{passes}, and the baseline{baseline}: {cost['trainings']} trainings, {cost['training_epochs']} {one}s in "
        f"all; searches {searched}, {size} settings"
    )

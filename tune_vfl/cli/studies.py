"""``tune-vfl studies``, ``status`` and ``frontier``: studies, progress and fronts from the ledger."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tune_vfl.analysis.formatting import NOT_NEEDED, counted
from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import cell, emit, emit_json, emit_table, plus_minus, say
from tune_vfl.errors import UsageError
from tune_vfl.machine.csv_text import to_csv
from tune_vfl.machine.streams import complain

SCHEMA = "tune-vfl/studies/1"
FOLLOW_SECONDS = 5.0
Format = Literal["table", "json", "csv", "parquet"]


def studies(storage: Storage = None, json: Json = False) -> None:
    """List the studies in the ledger: campaign, trials, and whether it is running, stopped or finished.

    Exits 1 when one is damaged.

    Example: `tune-vfl studies --json`
    """
    from tune_vfl.analysis.summary import study_summary
    from tune_vfl.ledger.damage import DamagedError
    from tune_vfl.service.studies import all_records, held_names, state_of

    rows = []
    records, damaged = all_records(storage)
    held = held_names(storage)
    for record in records:
        summary = study_summary(record)
        rows.append(
            {
                "study": record.name,
                "campaign": record.campaign,
                "dataset": record.cell.dataset.name,
                "defense": record.cell.defense,
                "state": state_of(record, running=record.experiment in held),
                "owed": record.running + record.waiting,
                "trials": summary["trials"],
                "front": len(summary["front"]),
                "hypervolume": summary["hypervolume"],
            }
        )
    if json:
        emit_json({"schema": SCHEMA, "studies": rows})
    elif rows:
        emit_studies(rows)
    elif not damaged:
        say("no studies yet: `tune-vfl quickstart` makes one")
    if damaged:
        complain(damaged, DamagedError.anchor)
        raise typer.Exit(1)


def emit_studies(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of studies, one of the list that ``studies --json`` prints in a row."""
    emit_table(list(rows[0]), [[counted(v) if k == "trials" else v for k, v in row.items()] for row in rows])


def status(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", help="Say it again as it changes, as long as it runs.")] = False,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Say how far a study or a campaign is: trials by outcome, hypervolume, front, time left, trials over their time.

    With --follow it ends when nothing runs the search any more; of one that was left it names the line that goes on.

    Example: `tune-vfl status kdk-bank`
    """
    from tune_vfl.ledger.reading import open_study
    from tune_vfl.service.studies import status_of

    stored = open_study(name, storage)
    shown: dict[str, Any] | None = None
    while True:
        summary = status_of(stored)
        if summary != shown:
            emit_json(summary) if json else emit_summary(summary)
        shown = summary
        if not follow or summary["state"] != "running":
            return
        time.sleep(FOLLOW_SECONDS)


def frontier(
    name: Name,
    form: Annotated[
        Format, typer.Option("--format", help="parquet needs -o; csv and json go to stdout without it.")
    ] = "table",
    attack: Annotated[str | None, typer.Option("--attack", help="The front against this attack alone.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write to a file instead.")] = None,
    storage: Storage = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
) -> None:
    """Print a Pareto front: no other setting has more utility at no more leakage.

    Of a campaign that of all its defenses together, one for each data set.

    Example: `tune-vfl frontier kdk-bank --format csv -o front.csv`
    """
    from tune_vfl.service.studies import campaign_record

    campaign, form = campaign_record(name, storage), "json" if json else form
    if form == "parquet" and out is None:
        raise UsageError("frontier --format parquet: give a file with -o FILE; parquet is not text")
    if form == "table" and out is not None:
        raise UsageError("frontier -o: choose --format json, csv or parquet for a file")
    if form in ("table", "json"):
        from tune_vfl.analysis.summary import frontier as points_of

        points = points_of(campaign, attack)
        _show_points(points, out) if form == "json" else front_table(points)
    else:
        from tune_vfl.service.frames import frontier_frame

        frame = frontier_frame(campaign, attack)
        if out is None:
            emit(to_csv(frame).rstrip("\n"))
        elif form == "csv":
            _write(out, len(frame), lambda draft: draft.write_text(to_csv(frame), encoding="utf-8"))
        else:
            _write(out, len(frame), lambda draft: frame.to_parquet(draft, index=False))


def _show_points(points: list[dict[str, Any]], out: Path | None) -> None:
    import json

    if out is None:
        emit_json(points)
    else:
        text = json.dumps(points, indent=2, allow_nan=False) + "\n"
        _write(out, len(points), lambda draft: draft.write_text(text, encoding="utf-8"))


def _write(out: Path, points: int, put: Callable[[Path], object]) -> None:
    """Write a front's file and say how many points it has."""
    from tune_vfl.machine.files import written_out

    with written_out(out) as draft:
        put(draft)
    say(f"wrote {out} ({points} points)")


def front_table(front: Sequence[Mapping[str, Any]], baseline: Mapping[str, Any] | None = None) -> None:
    """Print a front, and the undefended model under it."""
    met = [_successes(point) for point in front]
    names = list(dict.fromkeys(name for successes in met for name in successes))
    rows = [
        [
            point["number"] if "study" not in point else f"{point['study']}#{point['number']}",
            cell(point["params"]),
            plus_minus(point["utility"], point["utility_std"]),
            plus_minus(point["leakage"], point["leakage_std"]),
            *(successes.get(name, "-") for name in names),
        ]
        for point, successes in zip(front, met, strict=True)
    ]
    if baseline and baseline.get("utility") is not None:
        leakage = plus_minus(baseline.get("leakage"), baseline.get("leakage_std"))
        utility = plus_minus(baseline["utility"], baseline.get("utility_std"))
        successes = _successes(baseline)
        rows.append(["-", "no defense", utility, leakage, *(successes.get(name, "-") for name in names)])
    emit_table(("trial", "setting", "utility", "leakage", *names), rows)


def _successes(point: Mapping[str, Any]) -> dict[str, str]:
    """Return each attack's success as text, or that it was not needed."""
    known = {name: f"{value:.3f}" for name, value in point["attacks"].items()}
    return known | dict.fromkeys(point.get("not_needed") or {}, NOT_NEEDED)


def emit_summary(summary: Mapping[str, Any]) -> None:
    """Print the summary of a study or a campaign."""
    if "campaign" in summary:
        emit_campaign(summary)
    else:
        emit_study(summary)


def emit_campaign(summary: Mapping[str, Any]) -> None:
    """Print a campaign's summary: its joint fronts, and the decision on each data set."""
    counts: Counter[str] = Counter()
    for study in summary["studies"]:
        counts.update(study["trials"])
    emit(f"campaign {summary['campaign']}: {len(summary['studies'])} studies, {counted(counts)}")
    _progress(summary)
    for dataset, decision in summary["decisions"].items():
        front = [point for point in summary["front"] if point["dataset"] == dataset]
        emit(f"{dataset}:")
        if front:
            front_table(front, next(s["baseline"] for s in summary["studies"] if s["study"] == front[0]["study"]))
        else:
            emit("no trial has ended ok yet: no front")
        emit("\n".join(decision["says"]))
    _say_mlflow(summary)


def _progress(summary: Mapping[str, Any]) -> None:
    """Print whether it goes on, and when it ends."""
    if summary.get("state") == "stopped":
        emit(f"nothing runs it: 'tune-vfl resume {summary.get('campaign') or summary['study']}' goes on")
    if unheard := summary.get("unheard"):
        name = summary.get("campaign") or summary["study"]
        emit(f"{unheard}; if it is gone, 'tune-vfl resume {name} --take-over' goes on")
    if summary.get("eta_seconds") is not None:
        emit(f"about {summary['eta_seconds'] / 60:.1f} minutes left")
    late = summary.get("overdue")
    of = {"trials": late} if isinstance(late, list) else {f"{k}, trials": v for k, v in (late or {}).items()}
    for what, numbers in of.items():
        emit(f"overdue: {what} {', '.join(map(str, numbers))} take longer than trial_minutes")
    for sentence in summary.get("ended", ()):
        emit(sentence)


def emit_study(summary: Mapping[str, Any]) -> None:
    """Print a study's summary, front and decision."""
    emit(f"study {summary['study']}: {counted(summary['trials'])}; hypervolume {cell(summary['hypervolume'])}")
    _progress(summary)
    if summary["front"]:
        front_table(summary["front"], summary.get("baseline"))
    else:
        emit("no trial has ended ok yet: no front")
    if "decision" in summary:  # a cluster's job may have run an earlier version
        emit("\n".join(summary["decision"]["says"]))
    _say_mlflow(summary)


def _say_mlflow(summary: Mapping[str, Any]) -> None:
    mlflow = summary.get("mlflow") or {}
    if mlflow:
        from tune_vfl.machine.passwords import hide_password

        say(f"MLflow: experiment {mlflow.get('experiment')} at {hide_password(str(mlflow.get('tracking_uri')))}")

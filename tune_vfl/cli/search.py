"""``tune-vfl search`` and ``resume``: run studies here, or on the cluster of RAY_ADDRESS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Settings, Storage, StudyName, TakeOver
from tune_vfl.cli.output import complain, emit_json, say
from tune_vfl.errors import TuneVflError, UsageError

if TYPE_CHECKING:
    from tune_vfl.ledger.planned import PlannedStudy
    from tune_vfl.ledger.study import Study
    from tune_vfl.search.planning import Plan

FAILED = ("error", "oom", "timeout")
STOPPED = 130  # what a shell reports after Ctrl-C, so that `tune-vfl search ... && more` does not go on to `more`

Trials = Annotated[int | None, typer.Option("--trials", min=1, help="Finished trials to end with.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("search")(search)
    app.command("resume")(resume)


def search(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A YAML spec.")],
    trials: Trials = None,
    name: Annotated[str | None, typer.Option("--name", help="Call the study this.")] = None,
    settings: Settings = None,
    storage: Storage = None,
    take_over: TakeOver = False,
    json: Json = False,
) -> None:
    """Run a spec. A study that exists with the same spec goes on where it was left. Ctrl-C stops it cleanly.

    Of a matrix, every possible (dataset, defense) pair is run, one after the other, with the attacks that fit it.

    A domain in the place of a value of training or model is searched too, such as lr: {float: [1.0e-4, 1.0e-2]}.

    Example: `tune-vfl search study.yaml --trials 100 --set sampler.name=nsga2`
    """
    from tune_vfl.cli.plan import read_plan

    named = [f"study={_quoted(name)}"] if name is not None else []
    wanted = [f"budget.trials={trials}"] if trials is not None else []
    plan = read_plan(spec, [*(settings or ()), *named, *wanted])
    for skipped in plan.skipped:
        say(f"skipped {skipped}")
    raise typer.Exit(run_plan(plan, storage=storage, take_over=take_over, json=json))


def _quoted(name: str) -> str:
    import json

    return json.dumps(name)


def run_plan(plan: Plan, *, storage: str | None = None, take_over: bool = False, json: bool) -> int:
    """Run every study of a plan and print each; a study that cannot be run does not stop the next.

    Returns:
        The exit code: the gravest of the studies', see :func:`gravest`.
    """
    from tune_vfl.data import load
    from tune_vfl.search import search as run

    codes: list[int] = []
    for place, planned in enumerate(plan.studies, start=1):
        nothing_left = _finished(planned, storage)
        for note in load(planned.cell.dataset).notes:
            say(f"note: {note}")
        try:
            nothing_left = _finished(planned, storage)
            study = run(planned, storage=storage, take_over=take_over)
        except TuneVflError as error:
            if len(plan.studies) == 1:
                raise
            complain([f"{planned.name}: {error}"])
            codes.append(error.exit_code)
            continue
        except KeyboardInterrupt:
            _say_not_begun(plan.studies[place:])
            raise
        if nothing_left:
            say(f"study {planned.name} was finished already, nothing was run; --trials N asks for more")
        codes.append(show_end(study, json=json))
        if codes[-1] == STOPPED:
            _say_not_begun(plan.studies[place:])
            break
    return gravest(codes)


def _say_not_begun(studies: Sequence[PlannedStudy]) -> None:
    if studies:
        say(f"not begun: {', '.join(s.name for s in studies)}; the same 'tune-vfl search' goes on with all of them")


def _finished(planned: PlannedStudy, storage: str | None) -> bool:
    from tune_vfl.service.studies import finished

    return finished(planned.name, storage or planned.spec.storage, planned.spec.budget.trials)


def gravest(codes: Sequence[int]) -> int:
    """Return the exit code of several studies: stopped, else failed, refused, unreachable, or with failed trials."""
    return next((code for code in (STOPPED, 1, 2, 4, 3) if code in codes), 0)


def show_end(study: Study, *, json: bool) -> int:
    """Print a finished study.

    Returns:
        130 when it was stopped, 3 when a trial ended as error, oom or timeout, else 0.
    """
    from tune_vfl.cli.studies import emit_study

    summary = study.summary()
    if json:
        emit_json(summary)
    else:
        emit_study(summary)
    return STOPPED if study.stopped else exit_code(summary)


def exit_code(summary: dict[str, Any]) -> int:
    """Return a study's exit code."""
    return 3 if any(summary["trials"].get(name) for name in FAILED) else 0


def resume(
    study: StudyName,
    trials: Trials = None,
    storage: Storage = None,
    take_over: TakeOver = False,
    json: Json = False,
) -> None:
    """Finish what a stopped search still owes; `--trials N` makes N finished trials the new budget.

    Example: `tune-vfl resume kdk-bank --trials 80`
    """
    from tune_vfl.search import resume as run
    from tune_vfl.service.studies import open_study

    held = open_study(study, storage).record()
    if trials is not None and trials < len(held.counted):
        raise UsageError(f"--trials {trials}: study {study!r} has {len(held.counted)} finished trials already")
    ended = run(study, trials=trials, storage=storage, take_over=take_over)
    raise typer.Exit(show_end(ended, json=json))

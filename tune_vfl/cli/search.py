"""``tune-vfl search`` and ``resume``: run studies here, or on the cluster of RAY_ADDRESS."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Name, OtherCode, Settings, Storage, TakeOver, checked
from tune_vfl.cli.output import emit_json, note, say
from tune_vfl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tune_vfl.ledger.reading import StoredStudy
    from tune_vfl.records.campaigns import PlannedCampaign

FAILED = ("error", "oom", "timeout")
STOPPED = 130  # what a shell reports after Ctrl-C, so that `tune-vfl search ... && more` does not go on to `more`

Trials = Annotated[int | None, typer.Option("--trials", min=1, help="Finished trials to end with, in all.")]


def search(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A YAML spec.")],
    trials: Trials = None,
    name: Annotated[str | None, typer.Option("--name", help="Call the study or campaign this.")] = None,
    settings: Settings = None,
    storage: Storage = None,
    take_over: TakeOver = False,
    other_code: OtherCode = False,
    copy_data: Annotated[
        bool,
        typer.Option(
            "--copy-data",
            help="Copy the spec's own data files into the home first, where resume, confirm and report find them even "
            "when the originals are gone.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Run a spec. A study that exists with the same spec is continued. Ctrl-C stops it cleanly.

    A spec with several data sets or defenses (`defense: [laplace, marvell]`, `defense: all`) is a campaign: every
    possible pair is a study of it, with the attacks that fit, and all are run at once by the same workers.

    A domain in the place of a value of training or model is searched too, such as lr: {float: [1.0e-4, 1.0e-2]}.

    Example: `tune-vfl search study.yaml --trials 100 --set sampler.name=nsga2`
    """
    say(f"reading {spec} and planning its trials")  # before imports that take seconds
    from tune_vfl.cli.plan import plan_of
    from tune_vfl.cli.plan_shown import left_out
    from tune_vfl.data import load
    from tune_vfl.machine.places import resolve_uri
    from tune_vfl.spec.raw import read_yaml

    raw = read_yaml(spec, note)
    named = [f"study={dumps(name)}"] if name is not None else []
    wanted = [f"budget.trials={trials}"] if trials is not None else []
    settings = [*(settings or ()), *named, *wanted]
    with _with_copies(raw, settings, storage) if copy_data else nullcontext((raw, settings)) as (raw, settings):
        plan = plan_of(raw, spec, settings)
        for line in left_out(plan.skipped):
            say(f"left out {line}")
        resolve_uri(plan.studies[0].spec.tracking)  # a refusal comes before anything runs
        for sentence in dict.fromkeys(said for study in plan.studies for said in load(study.cell.dataset).notes):
            note(sentence)
        code = run_plan(plan, storage, take_over=take_over, other_code=other_code, json=json)
    raise typer.Exit(code)


@contextmanager
def _with_copies(
    raw: dict[str, Any], settings: list[str], storage: str | None
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield the spec with its settings that names copies of its data files, and no settings."""
    from tune_vfl.machine.passwords import StudyUrl
    from tune_vfl.service.data_copies import copied

    spec = checked(raw, settings, dict)
    named = spec.get("storage")
    with copied(spec, storage or (StudyUrl(named) if named else None)) as spec:
        yield spec, []


def run_plan(
    plan: PlannedCampaign, storage: str | None, *, take_over: bool = False, other_code: bool = False, json: bool
) -> int:
    """Run a campaign or a study and print its result; of one that is complete say that nothing was run.

    Returns:
        The exit code, see :func:`show_end`.
    """
    from tune_vfl.driver.api import search as run
    from tune_vfl.service.studies import finished

    complete = finished(plan, storage or plan.studies[0].spec.storage)
    ended = run(plan, storage=storage, take_over=take_over, other_code=other_code)
    if complete:
        more = "" if any(study.ended for study in ended.record().studies) else "; --trials N asks for more"
        say(f"{plan.name!r} was finished already, nothing was run{more}")
    return show_end(ended, json=json)


def show_end(ended: StoredStudy, *, json: bool) -> int:
    """Print the result of a run.

    Returns:
        130 when it was stopped, 3 when a trial ended as error, oom or timeout, else 0.
    """
    from tune_vfl.analysis.summary import summary
    from tune_vfl.cli.studies import emit_summary

    told = summary(ended.record())
    if json:
        emit_json(told)
    else:
        emit_summary(told)
    return STOPPED if ended.stopped else exit_code(told)


def exit_code(summary: dict[str, Any]) -> int:
    """Return the exit code of a study or a campaign."""
    studies = summary.get("studies", [summary])
    return 3 if any(study["trials"].get(name) for study in studies for name in FAILED) else 0


def resume(
    name: Name,
    trials: Trials = None,
    storage: Storage = None,
    take_over: TakeOver = False,
    other_code: OtherCode = False,
    json: Json = False,
) -> None:
    """Finish a stopped search; `--trials N` makes N finished trials the new budget.

    Example: `tune-vfl resume kdk-bank --trials 80`
    """
    say(f"reading what the ledger has of {name!r}")  # before imports that take seconds
    from tune_vfl.driver.planning import with_more
    from tune_vfl.ledger.reading import open_study

    stored = open_study(name, storage)
    done = sum(len(record.counted) for record in stored.record().studies)
    if trials is not None and trials < done:
        raise UsageError(f"--trials {trials}: {name!r} has {done} finished trials already")
    plan = with_more(stored.plan(), trials)
    raise typer.Exit(run_plan(plan, stored.storage, take_over=take_over, other_code=other_code, json=json))

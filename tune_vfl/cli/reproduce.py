"""``tune-vfl reproduce``: run a published table, and show its numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json
from tune_vfl.cli.output import emit, emit_json, emit_table, note, say
from tune_vfl.cli.search import STOPPED
from tune_vfl.errors import UsageError

if TYPE_CHECKING:
    from tune_vfl.papers.comparison import ComparedNumber
    from tune_vfl.papers.overview import Overview, TableEntry

WITH_FAILURES = 3

Listing = Annotated[bool, typer.Option("--list", help="Show all tables and figures, and which have a verdict.")]
Dataset = Annotated[
    str | None, typer.Option("--dataset", "-d", help="Only evaluations on this data set, stand-ins among them.")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds of each evaluation: 0, 1, ...")]
Budget = Annotated[
    float,
    typer.Option(
        "--budget",
        min=0.0,
        metavar="MINUTES",
        help="Begin no evaluation that would not end within them; 0 only answers.",
    ),
]
Gpu = Annotated[float, typer.Option("--gpu", min=0.0, help="GPUs of one training, such as 1 or 0.25.")]
Page = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", help="Also write a page: .html, or .md for Markdown.")
]
Claims = Annotated[
    Path | None,
    typer.Option("--claims", metavar="FILE", help="With --list: also write which of the papers' claims stand, as .md."),
]
Board = Annotated[
    Path, typer.Option("--board", metavar="DIR", help="The board, for what other attacks leave of the claims.")
]
Results = Annotated[
    Path | None,
    typer.Option("--results", metavar="FOLDER", help="Where seeds are kept; by default reproduced/ in the home."),
]


def reproduce(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="A name that --list shows.")] = None,
    listing: Listing = False,
    dataset: Dataset = None,
    seeds: Seeds = 10,
    budget: Budget = 60.0,
    gpu: Gpu = 0.0,
    page: Page = None,
    claims: Claims = None,
    board: Board = Path("board"),
    results: Results = None,
    json: Json = False,
) -> None:
    """Run a published table, and say of each of its numbers whether it comes out here.

    Every row is an ordinary evaluation. Each seed is kept when it is done: the same command goes on after a kill, and
    only answers once everything is there. The cheapest evaluations come first; what --budget leaves out, and what
    lacks its files, is shown with its price. The numbers that come with tune-vfl are those of --list and of
    docs/fidelity.md: a table is measured anew, unless --results names their folder.

    A number is lower or higher when the 95% interval of the difference (Welch's t, and half of the last printed digit)
    leaves out zero, with the reason, if one is known; else reproduced, undecided where the seeds scatter too much, or
    within noise for a ratio. Numbers on other data, and of models that have not learned, are not judged.

    Exits 3 when a seed could not be measured, or nothing for lack of files, and 130 when it was stopped.

    Example: `tune-vfl reproduce gafm-table2 --dataset spambase --seeds 10`
    """
    if listing == (table is not None):
        raise UsageError("give a TABLE, or --list for all of them, and not both")
    if page is not None and page.suffix not in {".md", ".html"}:
        raise UsageError(f"--page {page}: expected a name that ends in .html or .md")
    if claims is not None and (not listing or claims.suffix != ".md"):
        raise UsageError(f"--claims {claims}: expected --list, and a name that ends in .md")
    if table is None:
        _write_claims(claims, board, _list(results, page, json=json))
        return
    from tune_vfl.papers.overview import Overview, entry
    from tune_vfl.papers.results import home_folder
    from tune_vfl.papers.run import reproduce as run

    where = results or home_folder()
    how: dict[str, Any] = {"seeds": seeds, "dataset": dataset, "minutes": budget, "gpu": gpu}
    ended = run(table, where, say=lambda text: say(f"{table}: {text}"), **how)
    found = entry(table, ended.results, ended.refused, dataset)
    if json:
        emit_json({"schema": "tune-vfl/reproduction/1", **found.answer(), "failed": dict(ended.failed)})
    else:
        _show(found)
    _write(page, Overview((found,)))
    if ended.stopped:
        raise typer.Exit(STOPPED)
    nothing = "" if found.judged or budget == 0 else next(iter(ended.refused.values()), "")
    if nothing:
        say(f"{table}: nothing was measured: {nothing}")
    if ended.failed or nothing:
        raise typer.Exit(WITH_FAILURES)


def _show(found: TableEntry) -> None:
    title = f"{found.paper.paper}, {found.table.place}: {found.table.title}"
    if found.table.reason:
        emit(f"{title}\nnothing of it can be compared: {found.table.reason}")
        return
    published = "published, %" if found.table.percent else "published"
    head = ("evaluation", "column", published, "ours", "seeds", "verdict", "why, remarks")
    emit_table(head, map(_row, found.cells), title)
    emit(f"{len(found.tally.judged)} of {len(found.tally.numbers)} numbers have a verdict: {found.verdicts or 'none'}")


def _row(shown: ComparedNumber) -> list[object]:
    from tune_vfl.papers.page import number_text, remarks_text

    seeds = shown.ours.seeds if shown.ours else None
    numbers = [shown.published.text, number_text(shown), seeds]
    return [shown.evaluation.label, shown.heading, *numbers, shown.verdict, remarks_text(shown)]


def _list(results: Path | None, page: Path | None, *, json: bool) -> Overview:
    from tune_vfl.papers.overview import overview

    found = overview(results)
    if json:
        emit_json({"schema": "tune-vfl/reproductions/1", **found.plain()})
    else:
        head = ("table", "title", "place", "numbers", "verdicts", "state", "without a verdict because")
        emit_table(head, [one.row() for one in found.entries])
        emit(found.says)
    _write(page, found)
    return found


def _write(page: Path | None, found: Overview) -> None:
    if page is not None:
        from tune_vfl.papers.page import write_page

        note(f"page: {write_page(page, found)}")


def _write_claims(place: Path | None, board: Path, found: Overview) -> None:
    if place is None:
        return
    from reports.board import shelves
    from tune_vfl.machine.files import written_out
    from tune_vfl.papers.claims_page import claims_text
    from tune_vfl.service.board import entries_in

    text = claims_text(found, list(shelves(entries_in(board))))
    with written_out(place) as draft:
        draft.write_text(text, encoding="utf-8")
    note(f"claims: {place}")

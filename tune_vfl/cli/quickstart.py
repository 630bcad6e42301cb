"""``tune-vfl quickstart``: a real search on bundled data, from nothing to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tune_vfl.cli.options import Json, Storage
from tune_vfl.cli.output import say

# Small enough for two cores and under three minutes, real enough to show a trade that is larger than its error bars:
# the more noise Laplace adds, the less the attacks learn, from nearly everything to next to nothing, and the price in
# accuracy comes late.
SPEC: dict[str, Any] = {
    "study": "quickstart",
    "dataset": {"name": "digits"},
    "defense": {"name": "laplace"},
    "attacks": ["default"],
    "budget": {"trials": 24, "seeds": 3},
    "sampler": {"name": "tpe", "seed": 0},
}


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("quickstart")(quickstart)


def quickstart(storage: Storage = None, json: Json = False) -> None:
    """Search a defense on data that comes with scikit-learn, print the front and write a report; under 3 minutes.

    A second run finds the finished study in the ledger, and prints and reports it again without training anything.

    Example: `tune-vfl quickstart`
    """
    from tune_vfl.cli.search import show_end
    from tune_vfl.search import search
    from tune_vfl.service.reporting import report_studies

    _announce(storage)
    study = search(SPEC, storage=storage)
    code = show_end(study, json=json)
    if study.record().ok:
        _say_where(report_studies([study.name], storage=storage))
    raise typer.Exit(code)


def _announce(storage: str | None) -> None:
    from tune_vfl.search.planning import plan
    from tune_vfl.service.studies import finished

    done = finished(plan(SPEC), storage)
    trials, seeds = SPEC["budget"]["trials"], SPEC["budget"]["seeds"]
    what = f"{SPEC['defense']['name']} on {SPEC['dataset']['name']} against the attacks that fit"
    if done:
        say(f"study {SPEC['study']!r} is finished already: this is what the ledger holds, nothing is trained again")
    else:
        say(f"searching {what}: {trials} settings, {seeds} seeds each, and no defense at all; Ctrl-C stops it cleanly")


def _say_where(page: Path) -> None:
    say(
        f"report: {page} (open it in a browser)\n"
        "MLflow: `tune-vfl ui`, then open http://127.0.0.1:5000 and filter runs by tags.`tune_vfl.pareto` = 'true'\n"
        f"use it: `tune-vfl export {SPEC['study']} --select knee -o best.json`"
    )

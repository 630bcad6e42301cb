"""The command line: assembles the verbs and turns every error into a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tune_vfl.cli import (
    attack,
    board,
    catalog,
    clean,
    confirm,
    data,
    doctor,
    evaluate,
    export,
    jobs,
    optuna_copy,
    quickstart,
    report,
    reproduce,
    search,
    studies,
    study,
    ui,
    validate,
)
from tune_vfl.cli.output import emit
from tune_vfl.errors import SpecError, TuneVflError, UsageError
from tune_vfl.machine.installs import naming_the_install
from tune_vfl.machine.places import working_folder_is_gone
from tune_vfl.machine.signals import Interrupted, answered
from tune_vfl.machine.streams import accept_all_text, complain

EPILOG = (
    "Exit codes: 0 fine, 1 failed, 2 usage or invalid spec, 3 a search finished with failed trials, "
    "4 cluster or tracking server unreachable. TUNE_VFL_DEBUG=1 shows the full traceback of an unexpected error."
)


_GONE = "the working folder was removed: change to a folder that exists (cd), and run the command again there"


class _Answering(TyperGroup):
    """Command group that handles Ctrl-C and SIGTERM for every verb, with a verb's own words if it has any."""

    def invoke(self, ctx: Any) -> Any:
        # Before any library is loaded that ends the process where it finds no working folder.
        if working_folder_is_gone():
            raise UsageError(_GONE)
        try:
            with answered(lambda: "tune-vfl: interrupted"):
                return super().invoke(ctx)
        except Interrupted as interrupted:
            raise typer.Exit(interrupted.exit_code) from interrupted
        except SystemExit as end:  # a verb ends by typer.Exit: this is a library's, or a plug-in's method
            raise TuneVflError(f"what this verb ran left the process by itself (sys.exit, {end.code!r})") from end


app = typer.Typer(
    name="tune-vfl",
    cls=_Answering,
    help="Find the label-privacy defense, and its setting, that costs your vertical federated learning the least.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(asked: bool) -> None:
    if asked:
        from tune_vfl.machine.version import VERSION

        emit(f"tune-vfl {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Hold the options that come before a verb."""


VERBS: dict[str, Callable[..., None]] = {
    "quickstart": quickstart.quickstart,
    "list": catalog.list_kind,
    "evaluate": evaluate.evaluate,
    "attack": attack.attack,
    "validate": validate.validate,
    "search": search.search,
    "resume": search.resume,
    "studies": studies.studies,
    "status": studies.status,
    "frontier": studies.frontier,
    "confirm": confirm.confirm,
    "report": report.report,
    "reproduce": reproduce.reproduce,
    "export": export.export,
    "optuna": optuna_copy.optuna,
    "submit": jobs.submit,
    "pull": jobs.pull,
    "ui": ui.ui,
    "doctor": doctor.doctor,
    "clean": clean.clean,
}
GROUPS = {"data": data.app, "study": study.app, "board": board.app, "jobs": jobs.app}

for _name, _verb in VERBS.items():
    app.command(_name)(_verb)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: what follows ``tune-vfl``; by default what the process was started with.

    Returns:
        The exit code of the interface: 0, 1, 2, 3 or 4; 130 after Ctrl-C, 143 after SIGTERM.
    """
    accept_all_text()
    try:
        with naming_the_install():
            app(args=None if arguments is None else list(arguments), prog_name="tune-vfl")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SpecError as error:
        complain(_with_reason(error.problems), error.anchor)
        return error.exit_code
    except TuneVflError as error:
        complain(_with_reason([str(error)]), error.anchor)
        return error.exit_code
    except Exception as error:  # the last place that can turn it into a message
        return _unexpected(error)
    return 0


def _with_reason(problems: Sequence[str]) -> list[str]:
    """Return problems, and that the working folder was removed under the command, if it was."""
    return [*problems, *([_GONE] if _GONE not in problems and working_folder_is_gone() else [])]


def _unexpected(error: Exception) -> int:
    if working_folder_is_gone():
        complain([_GONE], UsageError.anchor)
        return UsageError.exit_code
    if os.environ.get("TUNE_VFL_DEBUG", "") not in {"", "0"}:
        traceback.print_exception(error, file=sys.stderr)
    text = " ".join(str(error).split())
    hint = "" if os.environ.get("TUNE_VFL_DEBUG") else " (TUNE_VFL_DEBUG=1 shows where)"
    complain([f"unexpected {type(error).__name__}: {text[:500]}{hint}"], "unexpected")
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Options that several verbs share, and the reading of ``--set`` and ``-p``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from tune_vfl.errors import SpecError

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set any field of the spec; repeatable: training.epochs=50."),
]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="KEY=VALUE", help="Set a parameter of the defense; repeatable."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A study or a campaign, see `tune-vfl studies`.")]

Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URL",
        help="The ledger: a path or postgresql://USER@HOST/NAME; else what TUNE_VFL_STORAGE names, else "
        "TUNE_VFL_HOME/ledger.db.",
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="Take the study from another process, which stops; without it the answer says who has it."
    ),
]
OtherCode = Annotated[
    bool,
    typer.Option(
        "--other-code", help="Go on although source files that measure have changed; without it the answer names them."
    ),
]


def merged_settings(settings: Sequence[str] | None, params: Sequence[str] | None = None) -> list[str]:
    """Return ``--set`` settings followed by ``-p`` ones, which are short for ``defense.params.KEY=VALUE``."""
    return [*(settings or ()), *(f"defense.params.{p}" for p in params or ())]


def checked(raw: Mapping[str, Any], settings: Sequence[str], use: Callable[[dict[str, Any]], T]) -> T:
    """Apply settings to a raw spec and parse it; problems of both are reported together.

    Raises:
        SpecError: with all problems.
    """
    from tune_vfl.spec.raw import apply_settings

    spec, problems = dict(raw), list[str]()
    for setting in settings:
        try:
            spec = apply_settings(spec, [setting])
        except SpecError as error:
            problems += [p.replace("--set 'defense.params.", "-p '") for p in error.problems]
    try:
        used = use(spec)
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    if problems:
        raise SpecError(problems)
    return used

"""Every command that a page shows: its verbs and options are there."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.docs.test_site import PAGES, ROOT, text
from tune_vfl.cli.main import app

SHOWN = re.compile(r"^```(?:bash)?\n(.*?)^```|(?<!`)`(tune-vfl [^`]+)`(?!`)", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*tune-vfl (.*)")


def commands(page: Path) -> list[list[str]]:
    """The words after ``tune-vfl`` of each command of a page."""
    lines = [line for shown in SHOWN.findall(text(page)) for line in "".join(shown).replace("\\\n", " ").splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r"&&|\|", line)]
    return [shlex.split(found[1], comments=True) for part in parts if (found := COMMAND.match(part))]


@cache
def tree() -> Any:
    return typer.main.get_command(app)


def unknown(words: list[str]) -> list[str]:
    """The verbs and options of a command that do not exist."""
    at: Any = tree()
    while words and words[0] in getattr(at, "commands", {}):
        at, words = at.commands[words[0]], words[1:]
    options = {option for param in at.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
    bad = [w for w in words if re.match(r"--?[a-z]", w) and w.partition("=")[0] not in options]
    misspelt = words[:1] if hasattr(at, "commands") and words and words[0] not in {"VERB", *options} else []
    return bad + misspelt


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_commands_of_a_page_exist(page: Path) -> None:
    assert {" ".join(words): unknown(words) for words in commands(page) if unknown(words)} == {}

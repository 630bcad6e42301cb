"""Reading of search_spaces/papers: one file a paper."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from tune_vfl.errors import SpecError, UnknownNameError
from tune_vfl.papers.paper import Paper
from tune_vfl.papers.tables import Table
from tune_vfl.spec import explain
from tune_vfl.spec.yaml_text import load_yaml


def read_paper(text: str, where: str) -> Paper:
    """Parse a paper's file.

    Args:
        text: YAML.
        where: the file's name, for messages.

    Raises:
        SpecError: with every problem and its place.
    """
    raw = load_yaml(text, where)
    try:
        return Paper.model_validate(raw)
    except ValidationError as error:
        # What a rule over a whole table got is the table, which nobody reads.
        problems = (problem.partition(", got {")[0] for problem in explain(error, Paper))
        raise SpecError([f"{where}: {problem}" for problem in problems]) from error


def papers_folder() -> Path:
    """Return the folder of the papers' files and of the results that are kept with them."""
    # A folder of data without code: importlib.resources stumbles over the finder of an editable installation.
    found = find_spec("search_spaces")
    for folder in map(Path, (found.submodule_search_locations if found else None) or ()):
        if (folder / "papers").is_dir():
            return folder / "papers"
    raise SpecError("search_spaces/papers: no such folder; install the package again")


@cache
def papers() -> tuple[Paper, ...]:
    """Return all papers, in the order of their files' names.

    Raises:
        SpecError: when a file is broken.
    """
    files = sorted(papers_folder().glob("*.yaml"))
    return tuple(read_paper(f.read_text(encoding="utf-8"), f"search_spaces/papers/{f.name}") for f in files)


def find_table(name: str) -> tuple[Paper, Table]:
    """Return a table by its name, and its paper.

    Raises:
        UnknownNameError: with the nearest known name.
    """
    for paper in papers():
        if name in paper.tables:
            return paper, paper.tables[name]
    raise UnknownNameError("table", name, [t for paper in papers() for t in paper.tables])

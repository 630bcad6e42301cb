"""Every method names its papers in one form, and a paper has one name in the whole library."""

import re

import pytest

from tune_vfl.attacks import ATTACKS
from tune_vfl.defenses import DEFENSES

PAPER = re.compile(r"(?P<authors>[A-Z][\w. ]+ \d{4}), (?P<title>[^;()]+)( \([^;]+\))*")
PAPERS = {name: of[name].reference.split("; ") for of in (DEFENSES, ATTACKS) for name in of.names() if name != "none"}


@pytest.mark.parametrize("name", PAPERS)
def test_a_method_names_its_papers(name):
    for paper in PAPERS[name]:
        assert PAPER.fullmatch(paper), (
            f"{name}: `reference` has {paper!r}; write 'Authors YEAR, Title' or 'Authors YEAR, Title (where)', "
            "and '; ' between papers. A method without a paper stays in a package of its own (CONTRIBUTING.md)"
        )


def test_a_paper_has_one_name():
    titles: dict[str, dict[str, str]] = {}
    for name, papers in PAPERS.items():
        for found in filter(None, map(PAPER.fullmatch, papers)):
            titles.setdefault(found["authors"], {})[name] = found["title"].strip()
    differ = {authors: by for authors, by in titles.items() if len(set(by.values())) > 1}
    assert not differ, f"the same authors and year with other titles; give each `reference` the same one: {differ}"

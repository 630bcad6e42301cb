"""Every method names its papers in one form, and a paper has one name in the whole library."""

import re

from tune_vfl.attacks import ATTACKS
from tune_vfl.defenses import DEFENSES

PAPER = re.compile(r"(?P<authors>[A-Z][\w. ]+ \d{4}), (?P<title>[^;()]+)( \([^;]+\))*")


def test_a_paper_has_one_name():
    titles: dict[str, set[str]] = {}
    for registry in (DEFENSES, ATTACKS):
        for name in registry.names():
            reference = registry[name].reference
            if reference == "-":
                assert name == "none", "only the undefended model has no source"
                continue
            for paper in reference.split("; "):
                found = PAPER.fullmatch(paper)
                assert found, f"{name}: {paper!r} is not 'Authors YEAR, Title (where)'"
                titles.setdefault(found["authors"], set()).add(found["title"].strip())
    assert {authors: named for authors, named in titles.items() if len(named) > 1} == {}

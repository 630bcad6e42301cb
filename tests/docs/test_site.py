"""The site: every page has its place in the order by need, and every link between pages leads somewhere.

The builder checks the same and more (python -m sphinx -W -c docs . build/site); this is what a commit breaks easily.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from docs.llms import NEEDS, llms_text
from docs.words import LIMIT, pages

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("[!.]*/README.md")])
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def placed(page: Path) -> list[Path]:
    """The pages of a page's toctrees."""
    lines = [line for tree in TREE.findall(text(page)) for line in tree.splitlines() if line and line[0] != ":"]
    names = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
    return [(page.parent / f"{name}.md").resolve() for name in names]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_has_one_place() -> None:
    found = Counter(child for page in PAGES for child in placed(page))
    assert {page: found[page] for page in PAGES if page.name != "index.md"} == {
        page: 1 for page in PAGES if page.name != "index.md"
    }
    assert set(found) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(text(page)):
        if target.startswith(("http://", "https://")):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_llms_txt_lists_the_pages_at_their_addresses() -> None:
    lines = llms_text().splitlines()
    assert lines[0] == "# tune-vfl"
    found = {target.removesuffix(".html") for line in lines for target, _ in LINK.findall(line)}
    pages = {str(page.relative_to(ROOT)).removesuffix(".md") for page in PAGES}
    assert found <= pages
    parts = {f"docs/{name}" for name in ("index", *NEEDS)} | {name for name in pages if name.startswith("docs/api-")}
    assert pages - found <= parts | {"README"}


def test_the_pages_are_short() -> None:
    words = pages()
    assert sum(words.values()) <= LIMIT, f"python -m docs.words; the longest: {sorted(words, key=words.get)[-5:]}"  # type: ignore[arg-type]


def test_the_first_page_s_picture_shows_the_answer_that_stands_below_it() -> None:
    (deployed,) = re.findall(r">deploy (\w+ [^<]+)</text>", text(ROOT / "docs" / "decision.svg"))
    assert f"Deploy {deployed} on csv." in text(ROOT / "README.md")


def test_the_entry_for_bibtex_is_that_of_the_citation_file() -> None:
    citation, entry = yaml.safe_load(text(ROOT / "CITATION.cff")), text(ROOT / "docs" / "cite.md")
    assert re.findall(r"^  (version|date) +=? ?= \{(.*)\}", entry, re.MULTILINE) == [
        ("version", str(citation["version"])),
        ("date", str(citation["date-released"])),
    ]


@pytest.mark.slow  # trains
def test_the_pictures_of_the_pages_are_drawn(tmp_path: Path) -> None:
    from docs.pictures import main

    main(tmp_path)
    others = {p.name for p in (ROOT / "docs").glob("board-*.svg")}  # `tune-vfl board write` draws those
    # The first by `python -m docs.decision`, from the study of the first page; the other one by hand.
    others |= {"decision.svg", "own-cluster.svg"}
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in (ROOT / "docs").glob("*.svg")} - others

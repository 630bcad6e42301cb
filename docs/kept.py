"""Outputs of pages: kept in docs/outputs by `python -m docs.run`, which follows a page, and shown by the site.

A page whose blocks, or the measure, are others than when it was run, and an excerpt that is not in what was printed,
fail the build.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sphinx.util import logging

from tune_vfl.spec.cell import MEASURE

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
OUTPUTS = ROOT / "docs/outputs"
NOTEBOOK = ROOT / "examples/choose_a_defense.ipynb"
BOOK = "choose-a-defense"
TUTORIALS = ("index", "first-decision", "own-table", "attack-your-defense", "new-defense")
PAGES = (*TUTORIALS, "new-attack", "own-loop", BOOK)
ONLY = {"own-loop": "python examples/"}  # of such a page only the blocks that begin so are run
RAW = "\n\n```{{raw}} html\n{}\n```\n"
LONG = 40  # lines of output from which on it is folded
BLOCK = re.compile(
    r"(?:Save as\s`([\w./-]+)`[^`\n]*\n?[^`\n]*\n)?\n?^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


class Fence(NamedTuple):
    """A fenced block of a page, the file that it is saved as, and where it ends in the text."""

    file: str
    language: str
    text: str
    end: int

    @property
    def runs(self) -> bool:
        """Whether it is run: commands, which have no language, and Python."""
        return not self.file and self.language in {"", "python"}


def text_of(page: str) -> str:
    """Return the text of a page; of the first one the part that it has from the README."""
    if page == "index":
        part = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- first page -->")[2]
        return part.partition("<!-- end of the first page -->")[0]
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def blocks(text: str, only: str = "") -> Iterator[Fence]:
    """Yield the blocks of a text in order; with ``only`` those that begin so, and excerpts."""
    for found in BLOCK.finditer(text):
        block = Fence(found[1] or "", found[2], found[3], found.end())
        if block.text.startswith(only) or block.language == "text":
            yield block


def cells() -> list[dict[str, Any]]:
    """Return the cells of the notebook."""
    return [c | {"source": "".join(c["source"])} for c in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]]


def sources(page: str, text: str | None = None) -> list[str]:
    """Return what of a page decides what it prints: its files, commands, lines of Python."""
    if page == BOOK:
        return [cell["source"] for cell in cells() if cell["cell_type"] == "code"]
    found = blocks(text_of(page) if text is None else text, ONLY.get(page, ""))
    return [f"{block.file}\0{block.text}" for block in found if block.file or block.runs]


def digest(page: str, text: str | None = None) -> str:
    """Return the digest of a page's sources and of today's measure."""
    return hashlib.sha256("\0".join([str(MEASURE), *sources(page, text)]).encode()).hexdigest()[:16]


def kept(page: str) -> dict[str, Any]:
    """Return what a page printed: ``digest``, ``code``, and ``said``, a list in the order of the blocks that ran."""
    path = OUTPUTS / f"{page}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"digest": "", "code": "", "said": []}


def stale(page: str, text: str | None = None) -> list[str]:
    """Return what is wrong with a page's kept output: the page was changed, or shows what was not printed."""
    text = text_of(page) if text is None else text
    run = kept(page)
    if run["digest"] != digest(page, text):
        return [f"{page}: its blocks or the measure changed since it was run; run python -m docs.run {page}"]
    last, told, wrong = "", iter(run["said"]), []
    for block in blocks(text, ONLY.get(page, "")) if page != BOOK else ():
        if block.runs:
            last = next(told)["text"] or last
        elif block.language == "text" and last:
            lines = {line.strip() for line in last.splitlines()}
            wrong += [f"{page}: not printed: {line}" for line in block.text.splitlines() if line.strip() not in lines]
    return wrong


def printed(said: dict[str, str], excerpt: str = "") -> str:
    """Return the Markdown of what a block printed, beside an excerpt of it that the page shows."""
    text, picture = said["text"].strip("\n"), said.get("picture", "")
    shown = ""
    if text and excerpt.strip("\n") != text:
        folded = bool(excerpt) or text.count("\n") >= LONG
        name = "All of what it printed" if excerpt else "What it printed"
        opened = f'<details class="printed"><summary>{name}</summary>' if folded else '<div class="printed">'
        closed = "</details>" if folded else "</div>"
        shown = RAW.format(opened) + f"\n\n```text\n{text}\n```\n" + RAW.format(closed)
    return shown + (f"\n\n![]({picture})\n" if picture else "")


def with_outputs(page: str, text: str) -> str:
    """Return a page's text with what each block printed behind it."""
    told, parts, at = iter(kept(page)["said"]), [], 0
    run = [b for b in blocks(text, ONLY.get(page, "")) if b.runs or b.language == "text"]
    for block, after in zip(run, [*run[1:], None], strict=True):
        if block.runs:
            excerpt = after if after and after.language == "text" else None
            end = excerpt.end if excerpt else block.end
            parts += [text[at:end], printed(next(told), excerpt.text if excerpt else "")]
            at = end
    return "".join([*parts, text[at:]])


def notebook() -> list[str]:
    """Return the notebook as a page: its cells, and what each of them showed."""
    told, lines = iter(kept(BOOK)["said"]), []
    for cell in cells():
        if cell["cell_type"] == "markdown":
            lines += [*cell["source"].removeprefix("# Choose a defense").splitlines(), ""]
            continue
        said = next(told, {"text": ""})  # none where the build has failed for it
        lines += ["```python", *cell["source"].splitlines(), "```", "", *printed(said).splitlines(), ""]
        if said.get("html"):
            frame = f'<div class="frame" tabindex="0">{said["html"]}</div>'
            lines += ["```{raw} html", *frame.splitlines(), "```", ""]
    return lines


def show(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put what a page printed behind its blocks as it is read, and warn, which fails a build, where that is stale."""
    page = docname.removeprefix("docs/")
    if page not in PAGES:
        return
    for read in (__file__, OUTPUTS / f"{page}.json", *[NOTEBOOK] * (page == BOOK)):
        app.env.note_dependency(str(read), docname=docname)
    problems = stale(page, None if page == "index" else source[0])
    for problem in problems:
        logging.getLogger(__name__).warning(problem, location=docname)
    if not problems and page not in {"index", BOOK}:
        source[0] = with_outputs(page, source[0])

"""llms.txt of the site (llmstxt.org): its pages by need, a line each, for programs that read before they answer."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
NEEDS = ("tutorials", "how-to", "explanation", "reference")
LINK = re.compile(r"\]\(([^)#\s]+)\.md(#[^)\s]+)?\)")


def llms_text() -> str:
    """Return the first page's sentence, and the lists of pages by need with addresses from the root of the site."""
    told = (HERE / "index.md").read_text(encoding="utf-8").split("\n\n")
    parts = [told[0], f"> {told[1].strip('*')}"]
    for need in NEEDS:
        text = (HERE / f"{need}.md").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if line.startswith("- ") and ".md" in line]
        parts += ["#" + text.splitlines()[0], "\n".join(map(_addressed, lines))]
    return "\n\n".join(parts) + "\n"


def _addressed(line: str) -> str:
    """Return a line without pictures whose links to pages are those of the site."""
    line = re.sub(r"!\[\]\([^)]*\) ", "", line)  # a picture
    return LINK.sub(lambda found: f"]({normpath(f'docs/{found[1]}')}.html{found[2] or ''})", line)


def write_llms(app: Sphinx, failed: Exception | None) -> None:
    """Write the file beside the site's first page, at the end of a build."""
    if failed is None and app.builder.format == "html":
        (Path(app.outdir) / "llms.txt").write_text(llms_text(), encoding="utf-8")

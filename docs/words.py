"""Count the words of the pages by need: python -m docs.words.

Blocks of code are not counted, nor pages that are written or made by a program, nor findings.md and decisions.md, which
are evidence.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.llms import NEEDS

HERE = Path(__file__).parent
NOT_COUNTED = {"fidelity", "claims", "board", "findings", "decisions"}
LIMIT = 22_000
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def pages() -> dict[str, int]:
    """Return the words of each page that is counted, by name."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.md"))}
    return {name: len(CODE.sub("", text).split()) for name, text in texts.items() if name not in NOT_COUNTED}


def by_need() -> dict[str, int]:
    """Return the words by the list in which a page stands; the lists themselves and the first page are ``index``."""
    words = pages()
    place = {
        child: need for need in NEEDS for child in words if f"({child}.md" in (HERE / f"{need}.md").read_text("utf-8")
    }
    place |= dict.fromkeys((name for name in words if name.startswith("api-")), "reference")
    needs = (*NEEDS, "index")
    return {need: sum(n for name, n in words.items() if place.get(name, "index") == need) for need in needs}


if __name__ == "__main__":
    for need, count in by_need().items():
        print(f"{count:7,} {need}")
    print(f"{sum(pages().values()):7,} of at most {LIMIT:,}")

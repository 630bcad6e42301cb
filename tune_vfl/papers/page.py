"""Published numbers beside ours as a page: Markdown, or HTML that needs nothing but itself."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tune_vfl.analysis.formatting import short
from tune_vfl.machine.files import written_out
from tune_vfl.machine.version import VERSION
from tune_vfl.papers.overview import counted
from tune_vfl.papers.verdict import CONFIDENCE, NOISY_RATIO, RESOLUTION

if TYPE_CHECKING:
    from pathlib import Path

    from tune_vfl.papers.comparison import ComparedNumber
    from tune_vfl.papers.overview import Overview


def number_text(cell: ComparedNumber) -> str:
    """Return our mean and deviation; nothing where there is none."""
    ours = cell.ours
    if ours is None:
        return ""
    return f"{ours.mean:.3f} ± {ours.std:.3f}" if ours.seeds > 1 else f"{ours.mean:.3f}"


def difference_text(cell: ComparedNumber) -> str:
    """Return ours less the published number; nothing where there is none."""
    return "" if cell.ours is None else f"{cell.ours.mean - cell.published.mean:+.3f}"


def remarks_text(cell: ComparedNumber) -> str:
    """Return why a cell differs, and what a reader must know."""
    return "; ".join(part for part in (cell.says, *cell.remarks) if part)


def page_text(found: Overview, *, html: bool) -> str:
    """Return the page of some tables, or of all."""
    return rendered(
        "page.html.j2" if html else "page.md.j2",
        papers=[(p, [e for e in found.entries if e.paper.paper == p.paper]) for p in found.papers],
        runs=[run for entry in found.entries for run in entry.runs],
        says=found.says,
        counted={name: counted(one) for name, one in found.by_paper.items()},
        counts=found.counts,
        rule={"confidence": f"{CONFIDENCE:.0%}", "resolution": short(RESOLUTION, 2), "noisy": short(NOISY_RATIO, 1)},
        number=number_text,
        difference=difference_text,
        remarks=remarks_text,
        version=VERSION,
        css=files("reports").joinpath("page.css").read_text(encoding="utf-8") if html else "",
    )


def rendered(name: str, **values: Any) -> str:
    """Return a template of this folder with its values filled in."""
    from jinja2 import Environment, PackageLoader, select_autoescape

    environment = Environment(
        loader=PackageLoader("tune_vfl.papers", "."),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values).strip() + "\n"


def write_page(path: Path, found: Overview) -> Path:
    """Write a page: HTML for ``.html``, else Markdown.

    Raises:
        UnwritableError: when the place cannot be written.
    """
    text = page_text(found, html=path.suffix == ".html")
    with written_out(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path

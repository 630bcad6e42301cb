"""The report of a campaign or of several studies: one self-contained HTML page, with figures and tables as files."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from reports.confirmed import sections as confirmed_sections
from reports.gathered import gather
from reports.looks import COLORS, DARK, SIGNS
from reports.rows import study_rows
from reports.sections import Section, frames, section
from reports.story import commands, options, secrets
from reports.tables import table_files, tables
from tune_vfl.analysis import formatting
from tune_vfl.analysis.sentences import sentences
from tune_vfl.errors import StudyError
from tune_vfl.machine.plain_json import rounded
from tune_vfl.machine.removing import remove
from tune_vfl.machine.version import VERSION
from tune_vfl.records.campaigns import Campaign, CampaignRecord
from tune_vfl.records.measure import refuse_mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jinja2 import Environment

    from tune_vfl.records.studies import StudyRecord

REFRESH_SECONDS = 20
"""Seconds between two reloads of a running search's page."""
PLOTLY_FILE = "figures/plotly.js"
"""The script that draws the figures of a running search's page, 5 MB; a final page holds it."""


def report_files(
    given: CampaignRecord | Sequence[StudyRecord] | Sequence[CampaignRecord],
    *,
    refreshing: bool = False,
    pictures: Mapping[str, bytes] | None = None,
) -> dict[str, bytes]:
    """Return a report's files by relative path: ``index.html``, ``figures/``, ``tables/`` and a spec per study.

    The page of a running search has no other files than the script that draws its figures.

    Args:
        given: campaigns or studies to compare, finished or not, with or without a front.
        refreshing: for the page of a running search: reload it while trials are pending, and leave out slow parts and
            files.
        pictures: by data set, a PNG of images that attacks reconstruct.

    Raises:
        StudyError: without a study, for two of one name, or for studies of different measures.
    """
    campaign, owners = _laid(given)
    alone = len(campaign.datasets) == 1
    command = _exporting(owners)
    found = [section(data, f"d{k}", command, alone=alone, quick=refreshing) for k, data in enumerate(gather(campaign))]
    page = render(campaign, found, owners, pictures, refreshing=refreshing).encode()
    if refreshing:
        return {PLOTLY_FILE: _plotly().encode(), "index.html": page}
    drawn = {name: content for s in found for d in (s.frontier, s.growth) for name, content in d.files.items()}
    drawn |= {f"reconstructions-{dataset}.png": image for dataset, image in (pictures or {}).items()}
    texts = table_files({**dict(frames(found)), **tables(campaign.studies)})
    specs = {f"{record.name}.yaml": spec_text(record) for record in campaign.studies}
    return {
        **{f"figures/{name}": content for name, content in drawn.items()},
        **{f"tables/{name}": text.encode() for name, text in texts.items()},
        **{name: text.encode() for name, text in specs.items()},
        "index.html": page,
    }


def place_report(report: Mapping[str, bytes], out: Path) -> Path:
    """Write a report's files into a folder and return the page.

    A temporary folder comes first, so that a failure does not damage an earlier report. The earlier report's files are
    replaced where they differ; files that are not part of a report stay.
    """
    out = Path(out)
    changed = {name: content for name, content in report.items() if not _holds(out / name, content)}
    # In the folder itself where there is one: what is mounted there takes no file by a move from beside it.
    beside = out if out.is_dir() else out.parent
    beside.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=beside, prefix=f".{out.name}-"))
    try:
        for name, content in changed.items():
            path = draft / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        _move(draft, out)
        if PLOTLY_FILE not in report:
            remove(out / PLOTLY_FILE, out)
    finally:
        with suppress(OSError):
            remove(draft, beside)
    return out / "index.html"


def _laid(
    given: CampaignRecord | Sequence[StudyRecord] | Sequence[CampaignRecord],
) -> tuple[CampaignRecord, dict[str, str]]:
    """Return the given studies as one campaign, and by study the name for commands."""
    several: Sequence[StudyRecord | CampaignRecord] = [given] if isinstance(given, Campaign) else list(given)
    campaigns = [CampaignRecord.of(c) for c in several]
    names = [s.name for c in campaigns for s in c.studies]
    if not names or len(set(names)) < len(names):
        raise StudyError(f"a report needs one or more studies with different names, got: {', '.join(names) or 'none'}")
    refuse_mixed({s.name: s.measure for c in campaigns for s in c.studies})
    owners = {s.name: c.name for c in campaigns for s in c.studies}
    if len(campaigns) == 1:
        whole = campaigns[0]
    else:
        whole = CampaignRecord(
            name=" + ".join(c.name for c in campaigns),
            studies=tuple(s for c in campaigns for s in c.studies),
            trials=sum(c.trials for c in campaigns),
            skipped=tuple(left for c in campaigns for left in c.skipped),
        )
    return whole, owners


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:  # it is not there
        return False


def _move(draft: Path, out: Path) -> None:
    """Move a finished draft to its folder: in one step if the folder is new, else file by file, the page last."""
    draft.chmod(0o755)
    if not out.exists():
        draft.rename(out)
        return
    made = [p for p in draft.rglob("*") if p.is_file()]
    for path in sorted(made, key=lambda p: (p.name == "index.html", p)):
        target = out / path.relative_to(draft)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def spec_text(record: StudyRecord) -> str:
    """Return a study's spec as YAML that ``tune-vfl search`` reads.

    The addresses of ledger and tracking server are left out: reports are passed on, and an address may hold a password.
    """
    given = record.spec.model_dump(mode="json", exclude_unset=True, exclude={"storage", "tracking"})
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True)


def _exporting(owners: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function from a point's key to the command that exports it."""
    return lambda key: f"tune-vfl export {owners[key.rpartition('#')[0]]} --select {key} -o best.json"


def owed(campaign: CampaignRecord) -> int:
    """Return the number of pending and running trials of a campaign."""
    finished = sum(len(s.counted) for s in campaign.studies)
    return max(campaign.trials - finished, sum(s.running + s.waiting for s in campaign.studies))


@cache
def environment() -> Environment:
    """Return the templates' environment, with the formatting functions that they call."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(own_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["coded"] = _coded
    helpers = {
        "score": formatting.score,
        "count": formatting.count,
        "setting": formatting.setting,
        "metric_of": formatting.metric,
    }
    made.globals.update(**helpers, options=options, sentences=sentences)
    return made


def render(
    campaign: CampaignRecord,
    found: Sequence[Section],
    owners: Mapping[str, str],
    pictures: Mapping[str, bytes] | None = None,
    *,
    refreshing: bool = False,
) -> str:
    """Return the page as text, without external resources but for ``PLOTLY_FILE`` in that of a running search."""
    from markupsafe import Markup

    single = campaign.studies[0] if len(campaign.studies) == 1 else None
    left = owed(campaign)
    trusted = {
        "css": own_text("page.css"),
        "script": own_text("page.js"),
        "plotly": "" if refreshing else _plotly(),
        "figures": _embedded(_figures(found)),
    }
    page = environment().get_template("page.html.j2")
    return page.render(
        campaign=campaign,
        command=_exporting(owners),
        parts_of=[study for study, owner in owners.items() if owner != study],
        lines=commands(campaign.name, campaign.trials) if set(owners.values()) == {campaign.name} else [],
        title=f"{single.cell.defense} on {single.cell.dataset.name}" if single else campaign.name,
        single=single,
        secrets=secrets(campaign.studies),
        sections=found,
        confirmed=confirmed_sections(campaign.studies),
        rows={p.record.name: study_rows(p.story) for d in found for p in d.parts},
        reconstructions={d: base64.b64encode(image).decode() for d, image in (pictures or {}).items()},
        specs={s.name: spec_text(s) for s in campaign.studies},
        left=left,
        finished=sum(len(s.counted) for s in campaign.studies),
        refreshing=refreshing,
        plotly_file=PLOTLY_FILE,
        refresh=REFRESH_SECONDS if refreshing and left else None,
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        light=COLORS,
        dark=DARK,
        signs=SIGNS,
        version=VERSION,
        **{name: Markup(text) for name, text in trusted.items()},  # noqa: S704 - our own files, and escaped data
    )


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _figures(found: Sequence[Section]) -> dict[str, Any]:
    """Return the plotly data of every figure, by its element in the page."""
    drawn = {f"{s.key}-{d.figure.name}": d.data for s in found for d in (s.frontier, s.growth)}
    return drawn | {f"{p.key}-parallel": p.parallel for s in found for p in s.parts if p.parallel is not None}


def _embedded(data: Any) -> str:
    """Return data as JSON that is safe inside a script element."""
    text = json.dumps(rounded(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _coded(text: str) -> Any:
    """Return a sentence as HTML, with text between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


def own_text(name: str) -> str:
    """Return the text of a file of this package: a template, a style, a script."""
    return resources("reports").joinpath(name).read_text(encoding="utf-8")

"""The report: one self-contained page, its figures and its tables, for one study or several side by side."""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from reports import words
from reports.confirmed import sections
from reports.figure import save_frontier
from reports.layout import COLORS, SHAPES
from reports.story import Story, answers, options, story
from reports.svg import frontier_svg, shape
from reports.tables import outcomes_frame, write_tables
from tune_vfl.errors import StudyError
from tune_vfl.ledger.measure import refuse_mixed
from tune_vfl.machine.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.evaluation.certainty import Certainty
    from tune_vfl.ledger.records import StudyRecord
    from tune_vfl.ledger.trust import Trust
    from tune_vfl.outcome import AttackScore, Outcome


def write_report(records: Sequence[StudyRecord], out: Path) -> Path:
    """Write a report: ``index.html``, ``figures/``, ``tables/`` and a spec per study.

    Everything is made in a folder of its own first, so that a failure leaves what was there as it was. Files of an
    earlier report are replaced; files that are not part of a report stay.

    Args:
        records: one or more studies; finished or not, with a front or without.
        out: the folder.

    Returns:
        The page.

    Raises:
        StudyError: without a study, when two have one name, or when they are not measured alike.
    """
    names = [r.name for r in records]
    if not names or len(set(names)) < len(names):
        raise StudyError(f"a report needs one or more studies with different names, got: {', '.join(names) or 'none'}")
    refuse_mixed({r.name: r.measure for r in records})
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        _write(records, draft)
        _move(draft, out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return out / "index.html"


def _write(records: Sequence[StudyRecord], folder: Path) -> None:
    stories = [story(r) for r in records]
    save_frontier([s.info for s in stories], folder / "figures")
    write_tables(records, folder / "tables")
    for record in records:
        (folder / f"{record.name}.yaml").write_text(spec_text(record), encoding="utf-8")
    (folder / "index.html").write_text(render(records, stories), encoding="utf-8")


def _move(draft: Path, out: Path) -> None:
    """Put a finished draft in place: in one step where there is nothing yet, else file by file, the page last."""
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


def render(records: Sequence[StudyRecord], stories: Sequence[Story]) -> str:
    """Return the page as text; nothing in it is fetched from elsewhere."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    infos = [s.info for s in stories]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    helpers = {"score": words.score, "count": words.count, "setting": words.setting, "options": options, "shape": shape}
    environment.globals.update(helpers)
    own = {name: Markup(_own(name)) for name in ("page.css", "page.js")}  # noqa: S704 - our own files
    charts = {
        "wide": Markup(frontier_svg(infos)),  # noqa: S704 - every text in it is escaped where it is written
        "narrow": Markup(frontier_svg(infos, 400, 420, 12.5)),  # noqa: S704 - as above
    }
    return environment.from_string(_own("page.html.j2")).render(
        title=infos[0].title if len(infos) == 1 else f"{len(infos)} studies side by side",
        headline=answers(stories),
        single=stories[0] if len(stories) == 1 else None,
        stories=stories,
        confirmed=sections(records),
        records=records,
        specs=[spec_text(r) for r in records],
        colors=COLORS,
        shapes=SHAPES,
        version=VERSION,
        css=own["page.css"],
        script=own["page.js"],
        **charts,
        **front_rows(records, stories),
        outcomes=outcomes_frame(records).to_dict("records"),
    )


def _own(name: str) -> str:
    return files("reports").joinpath(name).read_text(encoding="utf-8")


def front_rows(records: Sequence[StudyRecord], stories: Sequence[Story]) -> dict[str, Any]:
    """Return the texts of the front table, by row and column, and apart from them those of the undefended models."""
    rows, undefended = [], []
    for record, written in zip(records, stories, strict=True):
        outcomes = {t.number: t.outcome for t in record.ok}
        if written.info.undefended and record.baseline:
            sure = written.info.trust.baseline
            undefended.append({"study": record.name, **_texts(record.baseline, sure, written.info.trust)})
        rows += [
            {
                "study": record.name,
                "key": f"{record.name}/{p.number}",
                "number": p.number,
                "setting": words.setting(p.params, written.info.moved),
                "knee": p.is_knee,
                "weak": ", ".join(p.weak),
                **_texts(outcomes[p.number], written.info.trust.trials.get(p.number), written.info.trust),
            }
            for p in written.info.front
        ]
    shown = [s for r in records for o in _outcomes(r) for s in o.attacks.values()]
    return {
        "front": rows,
        "undefended": undefended,
        "attacks": list(dict.fromkeys(n for r in records for o in _outcomes(r) for n in o.attacks)),
        "utilities": words.listed(list(dict.fromkeys(s.info.metric for s in stories))),
        "bounded": any(s.upper_bound for s in shown),
        "measures": words.listed(list(dict.fromkeys(words.metric(s.metric) for s in shown))) or "none",
    }


def _outcomes(record: StudyRecord) -> list[Outcome]:
    return [t.outcome for t in record.ok] + ([record.baseline] if record.baseline else [])


def _texts(outcome: Outcome, sure: Certainty | None, trust: Trust) -> Mapping[str, Any]:
    utility, leakage = outcome.utility, outcome.leakage
    kept = trust.alone.kept(utility.mean) if trust.alone and utility else None
    return {
        "utility": words.span(utility.mean, sure.utility_interval if sure else None, utility.std) if utility else "–",
        "kept": "–" if kept is None else f"{kept:.0%}",
        "leakage": words.span(leakage, sure.leakage_interval if sure else None, outcome.leakage_std),
        "worst": words.score(sure.leakage_worst_seed) if sure else "–",
        "attacks": {name: _attack(score) for name, score in outcome.attacks.items()},
    }


def _attack(score: AttackScore) -> str:
    return words.score(score.mean, score.std) + (" ≤" if score.upper_bound else "")

"""Input of the page's template: a section for each data set, with its figures, tables, texts and studies."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.compared import (
    PageRow,
    PageTable,
    Ranked,
    attack_table,
    cost_table,
    failure_table,
    front_table,
    history_frame,
    ranked,
)
from reports.describe import frontier, growth
from reports.importances import importances, parallel
from reports.plotted import plotly_dict
from reports.printed import files_of
from reports.story import Story, story
from tune_vfl.analysis import formatting
from tune_vfl.machine.csv_text import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

    from reports.figure import Figure
    from reports.gathered import Gathered
    from tune_vfl.records.studies import StudyRecord


class Drawn(NamedTuple):
    """A figure drawn with plotly and with matplotlib.

    Attributes:
        name: the name of its files and of its element in the page.
        figure: the figure before drawing.
        data: plotly's; ``image``: the printed figure as a data URL, empty where it is not printed.
        files: the printed figure by name, none where it is not printed.
    """

    name: str
    figure: Figure
    data: dict[str, Any]
    image: str
    files: dict[str, bytes]


class Part(NamedTuple):
    """One study in the page.

    Attributes:
        record, story: the study and its texts.
        called: its name in figures; ``key``: its element in the page.
        weights: the importances of its parameters; None without enough settings.
        parallel: its parallel coordinates for plotly; None without enough settings.
    """

    record: StudyRecord
    story: Story
    called: str
    key: str
    weights: PageTable | None
    parallel: dict[str, Any] | None


class Section(NamedTuple):
    """One data set in the page."""

    data: Gathered
    key: str
    frontier: Drawn
    growth: Drawn
    front: PageTable
    ranked: list[Ranked]
    attacks: PageTable
    cost: PageTable
    failures: PageTable
    parts: list[Part]
    history: pd.DataFrame


def section(data: Gathered, key: str, command: Callable[[str], str], *, alone: bool, quick: bool) -> Section:
    """Build the page's section on one data set.

    Args:
        data: the results on the data set.
        key: the section's element in the page.
        command: returns the command that exports a point, by its key.
        alone: whether it is the report's only data set; else its files are named after it.
        quick: leave out the slow parts: printed figures, importances and parallel coordinates.
    """
    name = "" if alone else f"-{data.found.dataset}"
    return Section(
        data=data,
        key=key,
        frontier=_drawn(frontier(data.found, data.decision, data.names), name, command, printed=not quick),
        growth=_drawn(growth(data.found), name, printed=not quick),
        front=front_table(data),
        ranked=ranked(data),
        attacks=attack_table(data),
        cost=cost_table(data),
        failures=failure_table(data),
        parts=[
            Part(
                record,
                story(record),
                data.names.called[record.name],
                f"{key}-{k}",
                None if quick else _weights(record),
                None if quick else parallel(record),
            )
            for k, record in enumerate(data.found.parts)
        ],
        history=history_frame(data),
    )


def _drawn(figure: Figure, suffix: str, command: Callable[[str], str] | None = None, *, printed: bool) -> Drawn:
    named = figure._replace(name=f"{figure.name}{suffix}")
    image, files = "", {}
    if printed:
        files = files_of(named)
        image = f"data:image/svg+xml;base64,{base64.b64encode(files[f'{named.name}.svg']).decode()}"
    return Drawn(named.name, named, plotly_dict(named, command), image, files)


def _weights(record: StudyRecord) -> PageTable | None:
    """Return a shaded table of importances."""
    found = importances(record)
    if not found:
        return None
    rows = tuple(PageRow((i.param, f"{i.utility:.2f}", f"{i.leakage:.2f}")) for i in found)
    note = "The share of each parameter in what utility and leakage vary by (fANOVA)."
    head = ("parameter ", formatting.metric(record.cell.metric), "leakage")
    heat = tuple((0.0, i.utility, i.leakage) for i in found)
    return PageTable("importances", head, rows, note, frame_of([i._asdict() for i in found]), heat)


def frames(sections: list[Section]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the frames of all data sets by name, those of one name joined."""
    import pandas as pd

    for name in ("front", "ranking", "worst_attacks", "cost", "failures", "importances", "hypervolume"):
        found = [frame for s in sections for frame in _frames(s, name) if len(frame)]
        if found:
            yield name, pd.concat(found, ignore_index=True) if len(found) > 1 else found[0]


def _frames(section: Section, name: str) -> list[pd.DataFrame]:
    tables = [section.front, section.attacks, section.cost, section.failures]
    tables += [r.table for r in section.ranked]
    tables += [p.weights for p in section.parts if p.weights is not None]
    return [section.history] if name == "hypervolume" else [t.frame for t in tables if t.name == name]

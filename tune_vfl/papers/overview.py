"""All published tables and figures, and how many of their numbers have a verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.analysis.formatting import short
from tune_vfl.errors import shortened
from tune_vfl.papers.comparison import ComparedNumber, compared
from tune_vfl.papers.measured import quantity
from tune_vfl.papers.reading import find_table, papers
from tune_vfl.papers.results import best_results, freshest
from tune_vfl.papers.tally import Tally, once, split, tally
from tune_vfl.papers.verdict import JUDGED, RESOLUTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tune_vfl.papers.paper import Paper
    from tune_vfl.papers.results import Results, TableResults
    from tune_vfl.papers.tables import Table


DATA = {"own": "the paper's own data and recipe", "sample": "a sample, or another recipe"}
NOTES = {"unlike": "on a sample or by another recipe", "recorded": "recorded before", "stale": "stale"}


class Missing(NamedTuple):
    """Numbers of one data set that have none of ours for one reason."""

    where: str
    numbers: int
    says: str


class TableRun(NamedTuple):
    """Evaluations that were run of a table on one data set: number, seeds of each, measure, version and date."""

    table: str
    where: str
    seeds: int
    how: str
    evaluations: int


@dataclass(frozen=True)
class TableEntry:
    """One table or figure.

    Attributes:
        name: by which ``reproduce`` takes it.
        paper, table: what it is.
        results: what is kept of it.
        cells: its published numbers beside ours.
    """

    name: str
    paper: Paper
    table: Table
    results: TableResults
    cells: list[ComparedNumber]

    @cached_property
    def tally(self) -> Tally:
        """The count of its verdicts."""
        return tally(self.cells)

    @property
    def judged(self) -> list[ComparedNumber]:
        """The cells with a number of ours."""
        return [cell for cell in self.cells if cell.ours is not None]

    @property
    def missing(self) -> list[Missing]:
        """The cells without one, by data set and reason."""
        groups = Counter((cell.evaluation.place, cell.says) for cell in self.cells if cell.ours is None)
        return [Missing(where, count, says) for (where, says), count in groups.items()]

    @property
    def runs(self) -> list[TableRun]:
        """Its evaluations that were run, by data set, seeds, measure, version and date."""
        groups: Counter[tuple[str, int, str]] = Counter()
        for evaluation in self.table.evaluations:
            kept = self.results.evaluations.get(evaluation.label)
            if kept and kept.seeds:
                groups[evaluation.place, len(kept.seeds), f"{kept.measure}, {kept.version}, {kept.date}"] += 1
            elif kept and kept.recorded:
                seeds = max(number.seeds for number in kept.recorded.columns.values())
                groups[evaluation.place, seeds, f"{kept.recorded.measure}, recorded before, {kept.recorded.date}"] += 1
        return [TableRun(self.name, *group, count) for group, count in groups.items()]

    @property
    def because(self) -> str:
        """Why numbers have no verdict: the most frequent reason, and how many others there are."""
        if self.table.reason:
            return self.table.reason
        reasons = Counter(c.says or str(c.verdict) for c in self.cells if not c.judged)
        return shortened([says for says, _ in reasons.most_common()], 1, "; ") if self.tally.state != "verdict" else ""

    @property
    def verdicts(self) -> str:
        """The count of each verdict, of numbers that are not compared, and of those recorded before, and stale."""
        return _verdicts(self.tally)

    def row(self) -> list[object]:
        """Return its line of ``reproduce --list``."""
        numbers = f"{len(self.tally.judged)} of {len(self.tally.numbers)}" if self.cells else "-"
        return [self.name, self.table.title, self.table.place, numbers, self.verdicts, self.tally.state, self.because]

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "table": self.name,
            "paper": self.paper.paper,
            "title": self.table.title,
            "place": self.table.place,
            "state": self.tally.state,
            "cells": len(self.tally.numbers),
            "judged": len(self.tally.judged),
            "owed": self.tally.owed,
            "verdicts": dict(self.tally.verdicts),
            "sizes": dict(self.tally.sizes),
            **self.tally.notes,
            "because": self.because,
        }

    def answer(self) -> dict[str, Any]:
        """Return it with all cells as plain data."""
        return {**self.plain(), "numbers": [cell.plain() for cell in self.cells]}


def _verdicts(found: Tally) -> str:
    said = found.verdicts
    parts = [f"{said[verdict]} {verdict}" for verdict in JUDGED if said[verdict]]
    parts += [f"{count} of them {NOTES[note]}" for note, count in found.notes.items() if count]
    return ", ".join([*parts, *(f"{said[other]} not judged ({other})" for other in said if other not in JUDGED)])


def counted(found: Tally) -> str:
    """Return how many published numbers have a verdict, and which, in a sentence."""
    sizes = found.sizes
    return (
        f"{len(found.judged)} of {len(found.numbers)} published numbers have a verdict: {_verdicts(found) or 'none'}; "
        f"{sizes['within']} lie within {short(RESOLUTION, 2)}, {sizes['farther']} surely farther, "
        f"{sizes['undecided']} neither; two cores without downloads can measure {found.owed} of the others"
    )


@dataclass(frozen=True)
class Overview:
    """All tables and figures, paper by paper."""

    entries: tuple[TableEntry, ...]

    @property
    def papers(self) -> list[Paper]:
        """The papers, each once."""
        return list({entry.paper.paper: entry.paper for entry in self.entries}.values())

    @cached_property
    def by_paper(self) -> dict[str, Tally]:
        """The numbers of each paper, each of which counts once in however many tables it is printed."""
        return {p.paper: once(e.tally for e in self.entries if e.paper.paper == p.paper) for p in self.papers}

    @cached_property
    def total(self) -> Tally:
        """The numbers of all papers."""
        listed = self.by_paper.values()
        return Tally([cell for one in listed for cell in one.numbers], sum(one.owed for one in listed))

    @property
    def counts(self) -> list[tuple[str, Tally]]:
        """The judged numbers by paper and quantity, by data, and all of them."""
        found = [
            (f"{paper}, {what}", one)
            for paper, every in self.by_paper.items()
            for what, one in split(every, lambda c: quantity(c.formula)).items()
        ]
        data = split(self.total, lambda c: c.data).items()
        return [*found, *((DATA[kind], one) for kind, one in data), ("all", self.total)]

    @property
    def says(self) -> str:
        """The number of tables and figures with a verdict, in a sentence."""
        states = Counter(e.tally.state for e in self.entries)
        plain = sum(bool(e.table.reason) for e in self.entries)
        return (
            f"of {len(self.entries)} tables and figures {states['verdict']} have a verdict on every number, "
            f"{states['partly']} on some, {states['none']} on none ({plain} of these have nothing to compare); "
            + counted(self.total)
        )

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"tables": [entry.plain() for entry in self.entries], "says": self.says}


def entry(
    name: str,
    results: TableResults,
    refused: Mapping[str, str] | None = None,
    dataset: str | None = None,
    others: Iterable[Results] = (),
) -> TableEntry:
    """Compare one table with results.

    Args:
        name: the table.
        results: what is kept of it.
        refused: why evaluations were not run, by label.
        dataset: only evaluations on this data set.
        others: results of other tables, which may tell whether a recipe learns.

    Raises:
        UnknownNameError: for a table that there is not.
    """
    paper, table = find_table(name)
    cells = compared(table, results, refused, others)
    return TableEntry(name, paper, table, results, [c for c in cells if dataset in (None, c.evaluation.dataset)])


def overview(folder: Path | None = None) -> Overview:
    """Compare all tables with what is kept, see :func:`tune_vfl.papers.results.best_results`.

    An evaluation of several tables has one result in all of them: the one with the most seeds.
    """
    named = [(name, table) for paper in papers() for name, table in paper.tables.items()]
    kept = {name: best_results(name, folder) for name, _ in named}
    every = [one for results in kept.values() for one in results.evaluations.values()]
    return Overview(tuple(entry(name, freshest(table, kept[name], every), others=every) for name, table in named))

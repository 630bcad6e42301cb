"""All published tables and figures, and how many of their numbers have a verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.errors import shortened
from tune_vfl.papers.comparison import ComparedNumber, Tally, compared, reasons_without, tally
from tune_vfl.papers.reading import find_table, papers
from tune_vfl.papers.results import best_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tune_vfl.papers.results import TableResults
    from tune_vfl.papers.tables import Paper, Table


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
        reasons = reasons_without(self.cells) if self.tally.state != "verdict" else []
        return shortened(reasons, 1, "; ")

    @property
    def verdicts(self) -> str:
        """The count of each verdict, and of those on other data, recorded before, and stale."""
        found = self.tally
        parts = _by_verdict(found.verdicts)
        parts += [f"{found.unlike} of them on other data than the paper's"] if found.unlike else []
        parts += [f"{found.recorded} of them recorded before"] if found.recorded else []
        return ", ".join(parts + ([f"{found.stale} stale"] if found.stale else []))

    def row(self) -> list[object]:
        """Return its line of ``reproduce --list``."""
        numbers = f"{self.tally.judged} of {self.tally.cells}" if self.tally.cells else "-"
        return [self.name, self.table.title, self.table.place, numbers, self.verdicts, self.tally.state, self.because]

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "table": self.name,
            "paper": self.paper.paper,
            "title": self.table.title,
            "place": self.table.place,
            "state": self.tally.state,
            "cells": self.tally.cells,
            "judged": self.tally.judged,
            "owed": self.tally.owed,
            "verdicts": dict(self.tally.verdicts),
            "unlike": self.tally.unlike,
            "recorded": self.tally.recorded,
            "stale": self.tally.stale,
            "because": self.because,
        }

    def answer(self) -> dict[str, Any]:
        """Return it with all cells as plain data."""
        return {**self.plain(), "numbers": [cell.plain() for cell in self.cells]}


def _by_verdict(verdicts: Counter[str]) -> list[str]:
    return [f"{count} {verdict}" for verdict, count in sorted(verdicts.items(), reverse=True)]


def counted(entries: Iterable[TableEntry]) -> str:
    """Return how many published numbers of some tables have a verdict, and which, in a sentence."""
    tallies = [e.tally for e in entries]
    verdicts: Counter[str] = sum((t.verdicts for t in tallies), Counter())
    unlike, recorded = sum(t.unlike for t in tallies), sum(t.recorded for t in tallies)
    return (
        f"{sum(t.judged for t in tallies)} of {sum(t.cells for t in tallies)} published numbers have a verdict: "
        + (", ".join(_by_verdict(verdicts)) or "none")
        + f" ({unlike} on other data than the paper's, {recorded} recorded before and not re-run); "
        + f"two cores without downloads can measure {sum(t.owed for t in tallies)} of the others"
    )


@dataclass(frozen=True)
class Overview:
    """All tables and figures, paper by paper."""

    entries: tuple[TableEntry, ...]

    @property
    def says(self) -> str:
        """The number of tables and figures with a verdict, in a sentence."""
        states = Counter(e.tally.state for e in self.entries)
        plain = sum(bool(e.table.reason) for e in self.entries)
        return (
            f"of {len(self.entries)} tables and figures {states['verdict']} have a verdict on every number, "
            f"{states['partly']} on some, {states['none']} on none ({plain} of these have nothing to compare); "
            + counted(self.entries)
        )

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"tables": [entry.plain() for entry in self.entries], "says": self.says}


def entry(
    name: str, results: TableResults, refused: Mapping[str, str] | None = None, dataset: str | None = None
) -> TableEntry:
    """Compare one table with results.

    Args:
        name: the table.
        results: what is kept of it.
        refused: why evaluations were not run, by label.
        dataset: only evaluations on this data set.

    Raises:
        UnknownNameError: for a table that there is not.
    """
    paper, table = find_table(name)
    cells = compared(table, results, refused)
    return TableEntry(name, paper, table, results, [c for c in cells if dataset in (None, c.evaluation.dataset)])


def overview(folder: Path | None = None) -> Overview:
    """Compare all tables with what is kept, see :func:`tune_vfl.papers.results.best_results`."""
    return Overview(tuple(entry(name, best_results(name, folder)) for paper in papers() for name in paper.tables))

"""Claims of papers as a page: what stands and what falls here, and what other attacks leave of it on the board."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tune_vfl.analysis import formatting
from tune_vfl.papers.comparison import UNEXPLAINED
from tune_vfl.papers.page import number_text, rendered
from tune_vfl.papers.standing import Instance, instances
from tune_vfl.papers.verdict import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.board import BoardRow, Shelf
    from tune_vfl.papers.claim import Claim
    from tune_vfl.papers.overview import Overview, TableEntry
    from tune_vfl.papers.paper import Paper

SAID = {
    "stands": ("stands", "stand"),
    "falls": ("falls", "fall"),
    "undecided": ("is undecided", "are undecided"),
    "differs": ("differs by data set", "differ by data set"),
    "not run": ("was not run", "were not run"),
}
RUN = ("stands", "falls", "undecided")


def claims_text(found: Overview, shelves: Sequence[Shelf]) -> str:
    """Return the page of all papers' claims.

    Args:
        found: all tables.
        shelves: the board's data sets.
    """
    entries = {entry.name: entry for entry in found.entries}
    papers = list({entry.paper.paper: entry.paper for entry in found.entries}.values())
    judged = {paper.paper: [Judged(claim, entries[claim.table]) for claim in paper.claims] for paper in papers}
    every = [one for of in judged.values() for one in of]
    left = {paper.paper: [text for shelf in shelves for text in _left(paper, shelf)] for paper in papers}
    texts = {"says": says_of(every), "says_of": says_of, "left": left}
    return rendered("claims.md.j2", papers=papers, judged=judged, confidence=f"{CONFIDENCE:.0%}", **texts)


class Judged:
    """A claim with what our numbers say of it on each data set.

    Args:
        claim: what is claimed.
        entry: its table.
    """

    def __init__(self, claim: Claim, entry: TableEntry) -> None:
        self.claim, self.table = claim, entry.table
        self.found = instances(claim, entry)

    @property
    def overall(self) -> str:
        """``stands`` or ``falls`` where it does so wherever it was run; ``undecided``, ``differs`` or ``not run``."""
        run = {one.standing for one in self.found if one.standing in RUN}
        return "not run" if not run else run.pop() if len(run) == 1 else "differs"

    @property
    def verdict(self) -> str:
        """The standings, with their data sets where these differ."""
        if self.overall != "differs":
            return "not run here" if self.overall == "not run" else self.overall
        by = {name: dict.fromkeys(i.less.evaluation.place for i in self.found if i.standing == name) for name in RUN}
        return "; ".join(f"{name} on {formatting.listed(list(places))}" for name, places in by.items() if places)

    @property
    def numbers(self) -> list[str]:
        """The numbers on each data set that has ours."""
        return [self._numbers(one) for one in self.found if one.standing in RUN]

    @property
    def missing(self) -> str:
        """The data sets without numbers of ours."""
        names = dict.fromkeys(i.less.evaluation.row.dataset for i in self.found if i.standing not in RUN)
        return formatting.listed(list(names)) if names else ""

    def _numbers(self, one: Instance) -> str:
        unit = "%" if self.table.percent else ""
        data = one.less.evaluation.data
        where = one.less.evaluation.place + (f" ({data.unlike})" if data.unlike else "")
        published = [f"{cell.published.text}{unit}" for cell in one.cells]
        ours = [number_text(cell) for cell in one.cells]
        seeds = "/".join(dict.fromkeys(str(cell.ours.seeds) for cell in one.cells if cell.ours))
        told = [
            f"{where}: published {' against '.join(published)}, ours {' against '.join(ours)} ({seeds} seeds)",
            "recorded before" if any(cell.source == "recorded" for cell in one.cells) else "",
            "stale" if any(cell.stale for cell in one.cells) else "",
            "the paper's own numbers break it" if one.published < -one.rounding else "",
        ]
        differ = [c.says for c in one.cells if c.verdict in ("lower", "higher") and c.says != UNEXPLAINED]
        why = dict.fromkeys(differ) if one.standing == "falls" else ()
        return ", ".join(part for part in told if part) + "".join(f"; {text}" for text in why)


def says_of(judged: Sequence[Judged]) -> str:
    """Return how many claims stand, in a sentence."""
    counted = Counter(one.overall for one in judged)
    told = [formatting.count(counted[name], *said) for name, said in SAID.items() if counted[name]]
    return f"of {formatting.count(len(judged), 'claim')} {', '.join(told)}"


def _left(paper: Paper, shelf: Shelf) -> Iterator[str]:
    """Yield what the attacks of the board find under a paper's defenses at published settings on one data set."""
    undefended = shelf.data.found.undefended
    for row in shelf.rows:
        if row.point.defense in paper.defenses and row.source is not None and undefended is not None:
            yield f"{shelf.name}, {_found(row)}; undefended {formatting.short(undefended.objectives[1])}"


def _found(row: BoardRow) -> str:
    point = row.point
    leakage = formatting.short_span(point.objectives[1], point.sure.leakage_interval)
    own = "" if row.own is None else f", {formatting.short(row.own)} by the paper's own attacks"
    setting = formatting.setting({k: v for k, v in point.params.items() if k not in row.entry.record.cell.fixed})
    return f"{point.defense} at {setting}: {leakage} by {point.trial.outcome.strongest}{own}"

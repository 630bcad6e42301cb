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
    from collections.abc import Sequence

    from reports.board import Shelf
    from tune_vfl.papers.claim import Claim, Headline
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
    papers = found.papers
    judged = {paper.paper: [Judged(claim, entries[claim.table]) for claim in paper.claims] for paper in papers}
    every = [one for of in judged.values() for one in of]
    heads = {p.paper: [Headlined(h, judged[p.paper], _range(p, shelves)) for h in p.headlines] for p in papers}
    texts = {"says": says_of(every), "says_of": says_of, "heads": heads}
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


class Headlined:
    """A headline of a paper with the verdicts of the claims that it rests on.

    Args:
        headline: what is claimed.
        judged: the paper's claims.
        board: what ``default`` finds under the paper's defenses.
    """

    def __init__(self, headline: Headline, judged: Sequence[Judged], board: str) -> None:
        self.headline, self.board = headline, board if headline.board else "-"
        found = [instance for one in judged if one.claim in headline.claims for instance in one.found]
        self._by = {name: [one for one in found if one.standing == name] for name in RUN}

    @property
    def verdict(self) -> str:
        """``stands`` where all does that was run; ``in part``; ``falls``; ``undecided``; or ``not run``."""
        stands, falls, undecided = (self._by[name] for name in RUN)
        if stands:
            return "in part" if falls or undecided else "stands"
        return "falls" if falls else "undecided" if undecided else "not run"

    @property
    def numbers(self) -> str:
        """Our numbers by the paper's attack, those that keep it first."""
        told = {name: dict.fromkeys(map(_short, found)) for name, found in self._by.items() if found}
        return "; ".join(f"{name}: {', '.join(texts)}" for name, texts in told.items()) or "not run here"


def says_of(judged: Sequence[Judged]) -> str:
    """Return how many claims stand, in a sentence."""
    counted = Counter(one.overall for one in judged)
    told = [formatting.count(counted[name], *said) for name, said in SAID.items() if counted[name]]
    return f"of {formatting.count(len(judged), 'claim')} {', '.join(told)}"


def _short(one: Instance) -> str:
    numbers = " against ".join(f"{cell.ours.mean:.3f}" for cell in one.cells if cell.ours)
    return f"{one.less.evaluation.place} {one.less.heading} {numbers}"


def _range(paper: Paper, shelves: Sequence[Shelf]) -> str:
    """Return the least and the most that the board finds under a paper's defenses at published settings."""
    rows = [(s.name, r) for s in shelves for r in s.rows if r.point.defense in paper.defenses and r.source is not None]
    if not rows:
        return "not on the board"
    least, most = (formatting.short(of(row.point.objectives[1] for _, row in rows)) for of in (min, max))
    return f"leakage {least} to {most} on {formatting.count(len({name for name, _ in rows}), 'data set')}"

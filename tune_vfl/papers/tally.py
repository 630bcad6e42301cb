"""Counts of published numbers by verdict, by size of the difference, by quantity and by data."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tune_vfl.papers.comparison import ComparedNumber


class Tally(NamedTuple):
    """Published numbers. One and its stand-ins count once.

    Attributes:
        numbers: the cell that decides each: the first that is judged, else the first with a number of ours.
        owed: how many have no number of ours, and two cores without downloads can measure.
    """

    numbers: list[ComparedNumber]
    owed: int = 0

    @property
    def judged(self) -> list[ComparedNumber]:
        """Those with a verdict that says something of the published number."""
        return [cell for cell in self.numbers if cell.judged]

    @property
    def verdicts(self) -> Counter[str]:
        """All verdicts, those among them that say why nothing is compared."""
        return Counter(str(cell.verdict) for cell in self.numbers if cell.verdict)

    @property
    def sizes(self) -> Counter[str]:
        """The judged numbers by the size of the difference."""
        return Counter(cell.difference.size for cell in self.judged if cell.difference)

    @property
    def notes(self) -> dict[str, int]:
        """Verdicts on a sample of the paper's data or by another recipe, of earlier measurements, and stale ones."""
        judged = self.judged
        return {
            "unlike": sum(cell.data == "sample" for cell in judged),
            "recorded": sum(cell.source == "recorded" for cell in judged),
            "stale": sum(cell.stale for cell in judged),
        }

    @property
    def state(self) -> str:
        """``verdict`` when all numbers have one, ``partly``, or ``none``."""
        judged = len(self.judged)
        return "none" if not judged else "verdict" if judged == len(self.numbers) else "partly"


def tally(cells: Iterable[ComparedNumber]) -> Tally:
    """Count the numbers of a table."""
    by_number: dict[tuple[str, str], list[ComparedNumber]] = {}
    for cell in cells:
        row = cell.evaluation.row
        by_number.setdefault((row.model_dump_json(exclude={"why"}), cell.heading), []).append(cell)
    groups = list(by_number.values())
    owed = sum(any(c.priced for c in group) and not any(c.ours for c in group) for group in groups)
    return Tally([max(group, key=lambda cell: (cell.judged, cell.ours is not None)) for group in groups], owed)


def once(tallies: Iterable[Tally]) -> Tally:
    """Return the tally of several tables, in which a number of one evaluation that several print counts once."""
    listed = list(tallies)
    found: dict[tuple[str, str, float], ComparedNumber] = {}
    for cell in (cell for one in listed for cell in one.numbers):
        raw = json.dumps(cell.evaluation.raw, sort_keys=True)
        found.setdefault((raw, cell.formula or cell.heading, cell.published.mean), cell)
    return Tally(list(found.values()), sum(one.owed for one in listed))


def split(found: Tally, key: Callable[[ComparedNumber], str]) -> dict[str, Tally]:
    """Return the tally of the judged numbers of each kind, in the order in which these come."""
    judged = found.judged
    return {kind: Tally([c for c in judged if key(c) == kind]) for kind in dict.fromkeys(map(key, judged))}

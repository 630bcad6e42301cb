"""Claims of papers held against what was measured: each stands, falls, or is undecided, data set by data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tune_vfl.papers.claim import Claim
from tune_vfl.papers.verdict import error_of, errors_of, half_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tune_vfl.papers.comparison import ComparedNumber
    from tune_vfl.papers.overview import TableEntry

Standing = Literal["stands", "falls", "undecided", "not run"]


@dataclass(frozen=True)
class Instance:
    """A claim on one data set.

    Attributes:
        claim: the inequality.
        less, than: its cells; ``than`` may be a number.
        repeats: of the paper's means, where it gives their number.
    """

    claim: Claim
    less: ComparedNumber
    than: ComparedNumber | float
    repeats: int | None

    @property
    def cells(self) -> list[ComparedNumber]:
        """Its cells: one or two."""
        return [self.less] if isinstance(self.than, float) else [self.less, self.than]

    @property
    def published(self) -> float:
        """By how much the paper's numbers keep the inequality; below 0 they break it."""
        than = self.than if isinstance(self.than, float) else self.than.published.mean
        return than + self.claim.within - self.less.published.mean

    @property
    def rounding(self) -> float:
        """The largest error that rounding leaves in :attr:`published`."""
        return sum(cell.published.rounding for cell in self.cells) + 1e-12

    @property
    def standing(self) -> Standing:
        """The verdict of our numbers on the claim.

        ``stands``: they keep the inequality by more than the interval of their difference. ``falls``: they break it by
        more than that, or do not keep it where the paper's difference is outside the interval of all errors.
        """
        ours = [cell.ours for cell in self.cells if cell.ours and cell.ours.seeds > 1 and cell.verdict != "not trained"]
        if len(ours) < len(self.cells):
            return "not run"
        sure = half_width([error_of(number.std, number.seeds) for number in ours]) + 1e-12
        than = self.than if isinstance(self.than, float) else ours[1].mean
        gap = than + self.claim.within - ours[0].mean
        if gap > sure:
            return "stands"
        every = [
            error
            for cell, number in zip(self.cells, ours, strict=True)
            for error in errors_of(cell.published, self.repeats, number.std, number.seeds)
        ]
        far = gap < -sure or self.published - gap > half_width(every) + self.rounding
        return "falls" if far else "undecided"


def instances(claim: Claim, entry: TableEntry) -> list[Instance]:
    """Return a claim on each data set of its table, stand-ins among them, that has both numbers.

    Args:
        claim: of this table.
        entry: the table.
    """
    found = list(_instances(claim, entry.cells, entry.table.repeats))
    run = {one.less.evaluation.row.dataset for one in found if one.standing != "not run"}
    # What no machine here can run is said once, and not at all where a stand-in was.
    return [one for one in found if one.standing != "not run" or one.less.evaluation.row.dataset not in run]


def _instances(claim: Claim, cells: Sequence[ComparedNumber], repeats: int | None) -> Iterator[Instance]:
    wanted = [cell for cell in cells if not claim.on or cell.evaluation.row.dataset in claim.on]
    lesser = [c for c in wanted if c.heading == claim.column and c.evaluation.is_named(claim.less)]
    if isinstance(claim.than, float):
        yield from (Instance(claim, less, claim.than, repeats) for less in lesser)
        return
    column = claim.than_column or claim.column
    others = [c for c in wanted if c.heading == column and c.evaluation.is_named(claim.than)]
    for less in lesser:
        same = [c for c in others if c.evaluation.place == less.evaluation.place and c is not less]
        yield from (Instance(claim, less, than, repeats) for than in same)

"""Claims of papers held against what was measured: each stands, falls, or is undecided, data set by data set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tune_vfl.papers.claim import Claim
from tune_vfl.papers.verdict import STANDARD_ERRORS

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

        ``stands``: they keep the inequality by more than two standard errors. ``falls``: they break it by more than
        that, or do not keep it where the paper's difference is more than that, and the paper's own error, away.
        """
        ours = [cell.ours for cell in self.cells]
        if any(number is None or number.seeds < 2 for number in ours):
            return "not run"
        means = [number.mean for number in ours if number]
        error = math.sqrt(sum(number.std**2 / number.seeds for number in ours if number))
        gap = (means[1] if len(means) > 1 else self._bound) + self.claim.within - means[0]
        if gap > STANDARD_ERRORS * error + 1e-12:
            return "stands"
        both = STANDARD_ERRORS * math.hypot(error, *self._published_errors) + self.rounding
        far = gap < -STANDARD_ERRORS * error - 1e-12 or self.published - gap > both
        return "falls" if far else "undecided"

    @property
    def _bound(self) -> float:
        return self.than if isinstance(self.than, float) else math.nan

    @property
    def _published_errors(self) -> list[float]:
        stds = [cell.published.std for cell in self.cells]
        return [std / math.sqrt(self.repeats) for std in stds if std is not None and self.repeats]


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

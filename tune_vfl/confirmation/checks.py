"""What a reader must know before trusting a confirmation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.evaluation.checks import Check
from tune_vfl.statistics import undecided

if TYPE_CHECKING:
    from tune_vfl.ledger.confirmations import ConfirmedPoint
    from tune_vfl.ledger.records import StudyRecord
    from tune_vfl.spec.cell import Cell


class RowFacts(NamedTuple):
    """Which rows a confirmation of a cell measures on.

    Attributes:
        reserve: how many the search has not seen.
        why_none: why there are none; empty where there are some.
        share: how much of the spread over other test rows the spread over seeds lacks: 1 where all seeds share their
            test rows, else the share of rows that one seed tests on.
    """

    reserve: int
    why_none: str
    share: float


def rows_of(cell: Cell) -> RowFacts:
    """Look at the cell's data set.

    Raises:
        DataError: when it cannot be read.
    """
    from tune_vfl.data import load
    from tune_vfl.data.reserve import reserve_rows, why_no_reserve

    dataset = load(cell.dataset)
    reserve = len(reserve_rows(dataset))
    shared = bool(reserve) or dataset.test_rows is not None
    return RowFacts(reserve, why_no_reserve(dataset), 1.0 if shared else dataset.test_share)


def checks_of(
    studies: Sequence[StudyRecord], points: Sequence[ConfirmedPoint], facts: RowFacts, *, by_rows: bool
) -> Iterator[Check]:
    """Yield the checks; every one, whether it holds or not.

    Args:
        studies: on one data set; with several, a setting is called ``STUDY#21``.
        points: what was found of them.
        facts: which rows were measured on.
        by_rows: whether the spread of the utility over test rows is known, and in its intervals.
    """
    owed = sum(record.running + record.waiting for record in studies)
    says = f"{owed} trials of the search are still owed: its front may move" if owed else "the search is finished"
    yield Check(name="finished", ok=not owed, says=says)
    fresh = f"utility is measured on {facts.reserve} rows that no search has seen"
    only_seeds = f"{facts.why_none}: the seeds are fresh, the rows are not"
    yield Check(name="reserve", ok=bool(facts.reserve), says=fresh if facts.reserve else only_seeds)
    other = "intervals of utility hold for other rows of this source too"
    metric = studies[0].cell.metric
    own = f"intervals of utility hold for these rows: the spread of {metric} over rows is not known"
    yield Check(name="rows", ok=by_rows, says=other if by_rows else own)
    lost = [p for p in points if p.outcome != "ok"]
    reasons = "; ".join(dict.fromkeys(p.reason for p in lost if p.reason))
    gone = f"no number for trial {_listed(lost, studies)}: {reasons}"
    every = "every setting was measured" if points else "no setting is near the joint front: none was measured again"
    yield Check(name="measured", ok=not lost, says=gone if lost else every)
    wide = [p for p in points if p.confirmed and p.leakage_interval and undecided(*p.leakage_interval)]
    which = f"trial{'s' if len(wide) > 1 else ''} {_listed(wide, studies)}"
    says = f"the leakage of {which} is undecided: half of its interval is more than .25"
    yield Check(name="decided", ok=not wide, says=says if wide else "no interval is too wide to choose by")


def nothing_ended_ok(dataset: str) -> Check:
    """Return the check of a data set on which there was nothing to confirm."""
    return Check(name="measured", ok=False, says=f"{dataset}: nothing to confirm, none of its trials ended ok")


def _listed(points: Sequence[ConfirmedPoint], studies: Sequence[StudyRecord]) -> str:
    return ", ".join(str(p.number) if len(studies) == 1 else f"{p.study}#{p.number}" for p in points)

"""Validity checks of a confirmation: fresh rows, failed settings, and spread over seeds and test rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tune_vfl.evaluation.checks import Check
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec.cell import Cell
from tune_vfl.statistics import undecided


class RowFacts(NamedTuple):
    """The test rows of a confirmation.

    Attributes:
        reserve: the number of rows that the search has not used.
        why_none: the reason for a reserve of 0; else empty.
        share: the share of the variance over test rows that the variance over seeds does not include: 1 where all seeds
            share their test rows, else the share of rows that one seed tests on.
    """

    reserve: int
    why_none: str
    share: float


def rows_of(cell: Cell) -> RowFacts:
    """Return the test rows that a confirmation of this cell uses.

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
    """Yield all checks, passed or failed.

    Args:
        studies: on one data set; with several, a setting is called ``STUDY#21``.
        points: the confirmed points.
        facts: the test rows.
        by_rows: whether the intervals include the utility's variance over test rows.
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
    """Return the failed check of a data set without an ok trial."""
    return Check(name="measured", ok=False, says=f"{dataset}: nothing to confirm, none of its trials ended ok")


def _listed(points: Sequence[ConfirmedPoint], studies: Sequence[StudyRecord]) -> str:
    return ", ".join(str(p.number) if len(studies) == 1 else f"{p.study}#{p.number}" for p in points)

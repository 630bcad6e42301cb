"""What a confirmation found, computed anew from the records that the ledger keeps. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.confirmation.checks import checks_of, rows_of
from tune_vfl.confirmation.values import Block, fresh, names_of, searched
from tune_vfl.evaluation.certainty import Name, utility_levels
from tune_vfl.ledger.compromise import scale_of
from tune_vfl.ledger.confirmations import (
    FIRST_SEED,
    UNDEFENDED,
    Confirmation,
    ConfirmedPoint,
    Line,
    Place,
    SeedRecord,
    UndefendedModel,
)
from tune_vfl.statistics import (
    clipped,
    cross_selected,
    differences,
    dominance,
    knee,
    leakage_bounds,
    leakage_differences,
    levels,
    mean_of_maxima,
    membership,
    merged,
    worst_attack,
)
from tune_vfl.statistics.rejects import FEWEST_SEEDS

if TYPE_CHECKING:
    from tune_vfl.confirmation.contest import Contest
    from tune_vfl.ledger.records import TrialRecord
    from tune_vfl.outcome import Outcome
    from tune_vfl.statistics import Bounds, Estimate, Plan
    from tune_vfl.statistics.arrays import Floats


def answer_of(
    contest: Contest, plan: Plan, held: Mapping[Place, SeedRecord], failed: Mapping[int, str] | None = None
) -> Confirmation:
    """Say what came of a contest that has come to its end.

    Args:
        contest: who took part.
        plan: its last one; nothing of it is missing.
        held: the records of the ledger.
        failed: the settings that could not be measured in this run, and why.
    """
    facts = rows_of(contest.record.cell)
    table = _Table(contest, plan, held, failed or {}, facts.share)
    points = sorted(table.points(), key=lambda p: (p.utility is None, -(p.utility or 0.0), p.number))
    return Confirmation(
        schema="tune-vfl/confirmation/1",
        name=contest.record.name,
        measure=contest.record.measure,
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + contest.common)),
        reserve=facts.reserve,
        points=tuple(points),
        baseline=table.undefended(),
        lines=tuple(table.lines()),
        gap=_gap(points),
        checks=tuple(checks_of(contest.record, points, facts, by_rows=table.by_rows)),
        knee=table.knee(),
    )


def _gap(points: Sequence[ConfirmedPoint]) -> dict[str, float]:
    """Return by how much the search's front looked better than it is; means over its points, larger is worse."""
    front = [p for p in points if p.on_front and p.utility is not None and p.leakage is not None]
    if not front:
        return {}
    return {
        "utility": float(np.mean([p.searched["utility"] - (p.utility or 0.0) for p in front])),
        "leakage": float(np.mean([(p.leakage or 0.0) - p.searched["leakage"] for p in front])),
    }


@dataclass(frozen=True)
class _Measured:
    """Settings on the same first seeds.

    Attributes:
        rows: their places among the contest's points.
        block: the numbers.
        utility: levels; ``bounds``: of the leakage.
        variance: of the utilities over test rows, times the share that the spread over seeds does not have in it.
    """

    rows: tuple[int, ...]
    block: Block
    utility: Estimate
    bounds: list[Bounds]
    variance: Floats


class _Table:
    """The records of a contest by point and seed."""

    def __init__(
        self,
        contest: Contest,
        plan: Plan,
        held: Mapping[Place, SeedRecord],
        failed: Mapping[int, str],
        share: float,
    ) -> None:
        self._contest, self._plan, self._failed, self._share = contest, plan, failed, share
        self._records = [_in_order(held, t.number) for t in contest.points]
        self._undefended = _in_order(held, UNDEFENDED)
        self._ends = {n: r for (n, _), r in sorted(held.items()) if r.outcome != "ok"}
        outcomes = [t.outcome for t in contest.points]
        self._names: list[Name] = names_of(outcomes, [r for records in self._records for r in records])
        self._known: dict[int, _Measured] = {}

    @property
    def by_rows(self) -> bool:
        """Whether every record says how far its utility would move on other test rows."""
        return all(r.variance is not None for records in self._records for r in records)

    def points(self) -> list[ConfirmedPoint]:
        """Return all settings that took part."""
        return [self._point(i, trial) for i, trial in enumerate(self._contest.points)]

    def _point(self, i: int, trial: TrialRecord) -> ConfirmedPoint:
        cell, (utility, leakage) = self._contest.record.cell, trial.outcome.objectives
        about: dict[str, Any] = {
            "study": self._contest.record.name,
            "dataset": cell.dataset.name,
            "defense": cell.defense,
            "number": trial.number,
            "params": trial.params,
            "seeds": len(self._records[i]),
            "on_front": trial.number in self._contest.front,
            "searched": {"utility": utility, "leakage": leakage},
        }
        if i not in self._sound:
            ended = self._ends.get(trial.number)
            reason = ended.reason if ended else self._failed.get(trial.number, "it was not measured")
            return ConfirmedPoint(**about, outcome=ended.outcome if ended else "error", reason=reason)
        kept = bool(self._plan.kept[i])
        return ConfirmedPoint(**about, confirmed=kept, stays=self._stays(i), **self._numbers(i, trial.outcome))

    def _numbers(self, i: int, outcome: Outcome) -> dict[str, Any]:
        measured = self._on(self._seeds_shown(i))
        row = measured.rows.index(i)
        gains, bounds = measured.block.advantages[:, row], measured.bounds[row]
        chosen = cross_selected(gains, searched([outcome], self._names).advantages[:, 0])
        low, high = measured.utility.interval(rows=measured.variance)
        leakage = _within(chosen, bounds)
        return {
            "utility": float(measured.utility.mean[row]),
            "utility_interval": (float(low[row]), float(high[row])),
            "leakage": leakage,
            "leakage_untuned": leakage,
            "leakage_interval": (bounds.lower, bounds.upper),
            "leakage_upper_90": bounds.upper_90,
            "leakage_worst_seed": float(clipped(mean_of_maxima(gains))),
            "attack": self._names[worst_attack(gains)][0],
        }

    def undefended(self) -> UndefendedModel:
        """Return the undefended model on all of its fresh seeds."""
        records = self._undefended
        if len(records) < FEWEST_SEEDS:
            ended = self._ends.get(UNDEFENDED)
            reason = ended.reason if ended else self._failed.get(UNDEFENDED, "it was not measured")
            return UndefendedModel(outcome=ended.outcome if ended else "error", reason=reason, seeds=len(records))
        block = fresh([records], names_of([], records))
        bounds = leakage_bounds(block.advantages)[0]
        level = levels(block.utility)
        low, high = level.interval(rows=self._variance([records]))
        return UndefendedModel(
            seeds=len(records),
            utility=float(level.mean[0]),
            utility_interval=(float(low[0]), float(high[0])),
            leakage=_within(cross_selected(block.advantages[:, 0]), bounds),
            leakage_interval=(bounds.lower, bounds.upper),
            leakage_worst_seed=float(clipped(mean_of_maxima(block.advantages[:, 0]))),
        )

    def knee(self) -> int | None:
        """Return the number of the best compromise among the kept settings, on the seeds that all of them have."""
        scale = scale_of(self._contest.record)
        if scale is None or not self._kept:
            return None
        measured = self._on(self._contest.common)
        rows = [measured.rows.index(i) for i in self._kept]
        best = knee(rows, measured.block.utility, measured.block.advantages, scale)
        return None if best is None else self._contest.points[measured.rows[best]].number

    def lines(self) -> list[Line]:
        """Return the kept settings along the front, merged where their seeds cannot tell them apart."""
        kept = self._kept
        if not kept:
            return []
        measured = self._on(self._contest.common)
        front = [measured.rows.index(i) for i in kept]
        apart = differences(measured.block.utility), leakage_differences(measured.block.advantages)
        return [self._line([measured.rows[r] for r in group]) for group in merged(front, *apart)]

    def _line(self, group: Sequence[int]) -> Line:
        points = [self._point(i, self._contest.points[i]) for i in group]
        points.sort(key=lambda p: (-(p.utility or 0.0), p.number))
        utility, leakage = [p.utility or 0.0 for p in points], [p.leakage or 0.0 for p in points]
        names = dict.fromkeys(n for p in points for n in p.params if n not in self._contest.record.cell.fixed)
        return Line(
            numbers=tuple(p.number for p in points),
            params={n: _range([p.params[n] for p in points if n in p.params]) for n in names},
            utility=(min(utility), max(utility)),
            leakage=(min(leakage), max(leakage)),
        )

    @cached_property
    def _sound(self) -> list[int]:
        """The points that have every seed that was asked for."""
        wanted = self._plan.wanted.tolist()
        return [i for i, records in enumerate(self._records) if len(records) >= wanted[i]]

    @cached_property
    def _kept(self) -> list[int]:
        """The sound points that stay on the front."""
        return [i for i in self._sound if self._plan.kept[i]]

    def _stays(self, i: int) -> float:
        """Return the chance of a point to be on the front: of one that was settled early, as it was then."""
        if not self._plan.kept[i]:
            return float(self._plan.member[i])
        return float(self._on_front[self._on(self._contest.common).rows.index(i)])

    @cached_property
    def _on_front(self) -> Floats:
        block = self._on(self._contest.common).block
        return membership(dominance(differences(block.utility), leakage_differences(block.advantages)))

    def _seeds_shown(self, i: int) -> int:
        """Return on how many seeds a point's numbers are given: the common ones, for it to be laid beside others."""
        return min(self._contest.common, len(self._records[i]))

    def _on(self, seeds: int) -> _Measured:
        if seeds not in self._known:
            rows = tuple(i for i in self._sound if len(self._records[i]) >= seeds)
            records = [self._records[i][:seeds] for i in rows]
            block = fresh(records, self._names)
            more = [r.utility for r in self._undefended if r.utility is not None]
            utility, bounds = utility_levels(block.utility, more), leakage_bounds(block.advantages)
            self._known[seeds] = _Measured(rows, block, utility, bounds, self._variance(records))
        return self._known[seeds]

    def _variance(self, points: Sequence[Sequence[SeedRecord]]) -> Floats:
        known = [[r.variance for r in records if r.variance is not None] for records in points]
        means = [float(np.mean(v)) if len(v) == len(r) else 0.0 for v, r in zip(known, points, strict=True)]
        return self._share * np.asarray(means)


def _within(leakage: float, bounds: Bounds) -> float:
    """Return a cross-selected leakage, at the nearest end of its interval where it lies outside.

    Where two attacks are close, some seeds choose one and some the other, and the mean of what they find may be less
    than either surely reaches.
    """
    return min(max(leakage, bounds.lower), bounds.upper)


def _in_order(held: Mapping[Place, SeedRecord], number: int) -> list[SeedRecord]:
    """Return the records of a setting from the first fresh seed on, up to the first that is missing or not ok."""
    records: list[SeedRecord] = []
    while (record := held.get((number, FIRST_SEED + len(records)))) is not None and record.outcome == "ok":
        records.append(record)
    return records


def _range(values: Sequence[Any]) -> list[Any]:
    """Return the lowest and highest of numbers, one where they are equal; else every different value."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return [min(values), max(values)] if min(values) < max(values) else [values[0]]
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different

"""Statistics of a finished contest, computed from the ledger's records: intervals, bounds, the front and its knee."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.analysis.reliability import scale_of
from tune_vfl.confirmation.by_attack import attacks_of, within
from tune_vfl.confirmation.checks import RowFacts, rows_of
from tune_vfl.confirmation.values import FreshBlock, fresh, names_of, searched
from tune_vfl.evaluation.certainty import Name, utility_levels
from tune_vfl.records.confirmations import FIRST_SEED, UNDEFENDED, ConfirmedPoint, SeedRecord, UndefendedModel
from tune_vfl.statistics import (
    Bounds,
    Estimate,
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
    from tune_vfl.analysis.setting import Setting
    from tune_vfl.confirmation.contest import Contest
    from tune_vfl.ledger.confirmation_store import Place
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.answers import SettingKey
    from tune_vfl.statistics.arrays import Floats


@dataclass(frozen=True)
class _Measurements:
    """Measurements of settings on the same first seeds.

    Attributes:
        rows: the indices among the contest's points; ``records``: the settings' records.
        block: the records as arrays.
        utility: levels; ``bounds``: those of the leakage.
        variance: that of the utilities over test rows, times the share that the variance over seeds does not include.
    """

    rows: tuple[int, ...]
    records: list[list[SeedRecord]]
    block: FreshBlock
    utility: Estimate
    bounds: list[Bounds]
    variance: Floats


class ContestTable:
    """The records of a finished contest, by point and seed.

    Points are indices among the contest's points.

    Args:
        contest: the candidates.
        held: the ledger's records, complete by the contest's plan.
        failed: the settings that failed in this run, with reasons.

    Attributes:
        facts: the test rows.
    """

    def __init__(
        self, contest: Contest, held: Mapping[Place, SeedRecord], failed: Mapping[SettingKey, str] | None = None
    ) -> None:
        self.contest, self._failed = contest, dict(failed or {})
        self.facts: RowFacts = rows_of(contest.studies[0].cell)
        self._plan = contest.plan(held, self._failed)
        self._records = [_in_order(held, e.key) for e in contest.points]
        self._undefended = {s: _in_order(held, (s, UNDEFENDED)) for s in contest.measured_undefended}
        self._ends = {(s, n): r for (s, n, _), r in sorted(held.items()) if r.outcome != "ok"}
        outcomes = [e.trial.outcome for e in contest.points]
        self._names: list[Name] = names_of(outcomes, [r for records in self._records for r in records])
        self._known: dict[int, _Measurements] = {}

    @property
    def by_rows(self) -> bool:
        """Whether every record has its utility's variance over test rows."""
        return all(r.variance is not None for records in self._records for r in records)

    @cached_property
    def points(self) -> list[ConfirmedPoint]:
        """The results of all candidates, in the contest's order."""
        return [self._point(i, entrant) for i, entrant in enumerate(self.contest.points)]

    def _point(self, i: int, entrant: Setting) -> ConfirmedPoint:
        cell, trial = self.contest.study(entrant.study).cell, entrant.trial
        utility, leakage = trial.outcome.objectives
        about: dict[str, Any] = {
            "study": entrant.study,
            "dataset": cell.dataset.name,
            "defense": cell.defense,
            "number": trial.number,
            "params": trial.params,
            "seeds": len(self._records[i]),
            "on_front": entrant.key in self.contest.front,
            "searched": {"utility": utility, "leakage": leakage},
        }
        if i not in self._sound:
            outcome, reason = self._end_of(entrant.key)
            return ConfirmedPoint(**about, outcome=outcome, reason=reason)
        kept = bool(self._plan.kept[i])
        # The chance to be on the front; of a setting that was decided early, as of that phase.
        stays = self._on_front[self._on(self.contest.common).rows.index(i)] if kept else self._plan.member[i]
        return ConfirmedPoint(**about, confirmed=kept, stays=float(stays), **self._numbers(i, trial.outcome))

    def _end_of(self, setting: SettingKey) -> tuple[Any, str]:
        """Return the outcome and reason of a setting without numbers."""
        ended = self._ends.get(setting)
        return (ended.outcome, ended.reason) if ended else ("error", self._failed.get(setting, "it was not measured"))

    def _numbers(self, i: int, outcome: Outcome) -> dict[str, Any]:
        # By the common seeds alone, so that points are comparable.
        measured = self._on(min(self.contest.common, len(self._records[i])))
        row = measured.rows.index(i)
        gains, bounds = measured.block.advantages[:, row], measured.bounds[row]
        # The search's seeds choose too, unless they lack an attack: it must not lose to its substitute values.
        alike = self._records[i][0].attacks.keys() <= outcome.attackers.keys()
        earlier = searched([outcome], self._names).advantages[:, 0] if alike else None
        chosen = cross_selected(gains, earlier)
        low, high = measured.utility.interval(rows=measured.variance)
        leakage = within(chosen, bounds)
        return {
            "utility": float(measured.utility.mean[row]),
            "utility_interval": (float(low[row]), float(high[row])),
            "leakage": leakage,
            "leakage_untuned": leakage,
            "leakage_interval": (bounds.lower, bounds.upper),
            "leakage_upper_90": bounds.upper_90,
            "leakage_worst_seed": float(clipped(mean_of_maxima(gains))),
            "attack": self._names[worst_attack(gains)][0],
            "attacks": attacks_of(measured.records, measured.block, self._names, row, outcome),
        }

    def undefended(self, study: str) -> UndefendedModel:
        """Return the result of a study's undefended model on all of its fresh seeds."""
        name = self.contest.undefended[study]
        records = self._undefended.get(name)
        if records is None:
            return UndefendedModel(outcome="error", reason="none of the study's settings took part", seeds=0)
        if len(records) < FEWEST_SEEDS:
            outcome, reason = self._end_of((name, UNDEFENDED))
            return UndefendedModel(outcome=outcome, reason=reason, seeds=len(records))
        block = fresh([records], names_of([], records))
        bounds = leakage_bounds(block.advantages, block.limits)[0]
        level = levels(block.utility)
        low, high = level.interval(rows=self._variance([records]))
        return UndefendedModel(
            seeds=len(records),
            utility=float(level.mean[0]),
            utility_interval=(float(low[0]), float(high[0])),
            leakage=within(cross_selected(block.advantages[:, 0]), bounds),
            leakage_interval=(bounds.lower, bounds.upper),
            leakage_worst_seed=float(clipped(mean_of_maxima(block.advantages[:, 0]))),
        )

    @property
    def reference(self) -> str:
        """The study whose undefended model is the data set's baseline: the one that most studies share."""
        shared = Counter(self.contest.undefended.values())
        return max(self._undefended, key=lambda name: shared[name])

    def _kept(self, study: str | None) -> list[int]:
        """Return the points on the confirmed front, of one study or of all."""
        points = self.contest.points
        return [i for i in self._sound if self._plan.kept[i] and study in (None, points[i].study)]

    @property
    def settings_kept(self) -> list[SettingKey]:
        """The settings on the confirmed front, by falling utility."""
        return [(p.study, p.number) for p in by_utility(self.points) if p.confirmed]

    def knee(self, study: str | None = None) -> SettingKey | None:
        """Return the best compromise on the confirmed front, of one study or all, by the seeds common to its points."""
        points, scale = self._kept(study), scale_of(self.contest.study(study or self.reference))
        if scale is None or not points:
            return None
        measured = self._on(self.contest.common)
        rows = [measured.rows.index(i) for i in points]
        best = knee(rows, measured.block.utility, measured.block.advantages, scale)
        return None if best is None else self.contest.points[measured.rows[best]].key

    def lines(self, study: str | None = None) -> list[list[ConfirmedPoint]]:
        """Return the confirmed front by falling utility, in groups without a significant difference."""
        points = self._kept(study)
        if not points:
            return []
        measured = self._on(self.contest.common)
        front = [measured.rows.index(i) for i in points]
        return [by_utility(self.points[measured.rows[r]] for r in group) for group in merged(front, *self._apart)]

    @cached_property
    def _sound(self) -> list[int]:
        """The points with every requested seed."""
        wanted = self._plan.wanted.tolist()
        return [i for i, records in enumerate(self._records) if len(records) >= wanted[i]]

    @cached_property
    def _apart(self) -> tuple[Estimate, Estimate]:
        """The differences between settings on the common seeds of the confirmed front."""
        block = self._on(self.contest.common).block
        return differences(block.utility), leakage_differences(block.advantages)

    @cached_property
    def _on_front(self) -> Floats:
        return membership(dominance(*self._apart))

    def _on(self, seeds: int) -> _Measurements:
        if seeds not in self._known:
            rows = tuple(i for i in self._sound if len(self._records[i]) >= seeds)
            records = [self._records[i][:seeds] for i in rows]
            block = fresh(records, self._names)
            more = [r.utility for r in self._undefended[self.reference] if r.utility is not None]
            utility, bounds = utility_levels(block.utility, more), leakage_bounds(block.advantages, block.limits)
            self._known[seeds] = _Measurements(rows, records, block, utility, bounds, self._variance(records))
        return self._known[seeds]

    def _variance(self, points: Sequence[Sequence[SeedRecord]]) -> Floats:
        known = [[r.variance for r in records if r.variance is not None] for records in points]
        means = [float(np.mean(v)) if len(v) == len(r) else 0.0 for v, r in zip(known, points, strict=True)]
        return self.facts.share * np.asarray(means)


def by_utility(points: Iterable[ConfirmedPoint]) -> list[ConfirmedPoint]:
    """Return points by falling utility, then by number; those without numbers last."""
    return sorted(points, key=lambda p: (math.inf if p.utility is None else -p.utility, p.number))


def _in_order(held: Mapping[Place, SeedRecord], setting: SettingKey) -> list[SeedRecord]:
    """Return the records of a setting from the first fresh seed on, up to the first that is missing or not ok."""
    records: list[SeedRecord] = []
    while (record := held.get((*setting, FIRST_SEED + len(records)))) is not None and record.outcome == "ok":
        records.append(record)
    return records

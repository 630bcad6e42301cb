"""The joint Pareto front of a campaign's studies on one data set, over the settings of all defenses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tune_vfl.analysis.joint_compromise import joint_knee_of
from tune_vfl.analysis.reliability import LocalBaseline
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.evaluation.certainty import Certainty, Interval, certainties
from tune_vfl.metrics import pareto
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.statistics import (
    differences,
    dominance,
    leakage_differences,
    membership,
    membership_of_many,
    merged,
    merged_of_many,
    undecided,
)
from tune_vfl.statistics.arrays import Bools


@dataclass(frozen=True)
class JointPoint:
    """One measured setting of one defense.

    Attributes:
        study, dataset, defense, number: the trial's identity; ``trial``: its record.
        sure: intervals, from all settings of the data set with the same seeds and undefended model.
        again: the confirmation's result, on the front or not; None where the setting took no part.
        chance: of being on the joint front; from one seed 1 on the front and 0 behind it.
        on_front: whether the search's measurements place it on the joint front.
    """

    study: str
    dataset: str
    defense: str
    number: int
    trial: TrialRecord
    sure: Certainty
    again: ConfirmedPoint | None = None
    chance: float = 0.0
    on_front: bool = False

    @property
    def name(self) -> str:
        """The name for ``--select``: ``STUDY#21``."""
        return f"{self.study}#{self.number}"

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, fixed ones included."""
        return self.trial.params

    @property
    def objectives(self) -> tuple[float, float]:
        """Utility and leakage as the search measured them."""
        return self.trial.outcome.objectives

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """The 90% intervals of utility and leakage: of a confirmation where there is one; None from a single seed."""
        best = self.sure if self.again is None else self.again
        return best.utility_interval, best.leakage_interval

    @property
    def undecided(self) -> bool:
        """Whether the leakage's interval is too wide for a recommendation."""
        leakage = self.intervals[1]
        return leakage is not None and undecided(*leakage)

    @property
    def confirmed(self) -> bool:
        """Whether a confirmation placed it on the front."""
        return self.again is not None and self.again.confirmed


class Step(NamedTuple):
    """The joint hypervolume after one more valid trial.

    Attributes:
        finished: the trial's end; ``study``, ``number``: its identity.
        hypervolume: that of the joint front at that time.
    """

    finished: datetime
    study: str
    number: int
    hypervolume: float


@dataclass(frozen=True)
class Together:
    """Settings of the joint front, of any defenses, without a significant difference.

    Attributes:
        points: by falling utility.
        utility, leakage: the lowest and highest that the search measured.
    """

    points: tuple[JointPoint, ...]
    utility: tuple[float, float]
    leakage: tuple[float, float]


@dataclass(frozen=True)
class Joint:
    """All studies of a campaign on one data set, and their joint front.

    Attributes:
        dataset: its name; ``metric``: of the utility.
        parts: the studies, in the order of the campaign.
        points: all settings with objectives, study by study, by number.
        front: those on the joint front, by falling utility, all equal ones included.
        together: the front in groups of neighbors without a significant difference.
        reference: the hypervolume's reference point ``(utility, leakage)``.
        hypervolume: of the joint front.
        knee: the best compromise, among confirmed settings where there are any; None without a point.
        undefended: the baseline of all settings, the undefended model that most studies share; None without.
        undefended_sure: its intervals, if known.
        alone: the label party's own model; None where it was not measured.
        settings: the points in the same order, with their statistics over seeds.
    """

    dataset: str
    metric: str
    parts: tuple[StudyRecord, ...]
    points: tuple[JointPoint, ...]
    front: tuple[JointPoint, ...]
    together: tuple[Together, ...]
    reference: tuple[float, float]
    hypervolume: float
    knee: JointPoint | None
    undefended: Outcome | None
    undefended_sure: Certainty | None
    alone: LocalBaseline | None
    settings: SettingsTable = field(repr=False)

    def point(self, study: str, number: int) -> JointPoint | None:
        """Return a trial's setting; None for a trial without objectives, or of another data set."""
        return next((p for p in self.points if p.study == study and p.number == number), None)

    def of(self, defense: str) -> tuple[JointPoint, ...]:
        """Return the settings of one defense."""
        return tuple(p for p in self.points if p.defense == defense)

    @cached_property
    def history(self) -> tuple[Step, ...]:
        """The joint hypervolume after each trial that counts, in the order of their ends."""
        counted = [(t.finished, i, t.number, p.name, t.outcome) for i, p in enumerate(self.parts) for t in p.counted]
        held, steps = pareto.GrowingFront(self.reference), []
        for finished, _, number, study, outcome in sorted(counted, key=lambda step: step[:3]):
            if outcome.outcome == "ok":
                held.add(*outcome.objectives)
            steps.append(Step(finished, study, number, held.area))
        return tuple(steps)

    @property
    def defenses(self) -> tuple[str, ...]:
        """The defenses, each once, in the order of the campaign."""
        return tuple(dict.fromkeys(part.cell.defense for part in self.parts))


def joint_of(campaign: CampaignRecord, dataset: str | None = None) -> Joint:
    """Compute the joint front of a campaign's studies on one data set.

    Args:
        campaign: the campaign.
        dataset: its name; None where the campaign has only one.
    """
    part = campaign.on(campaign.datasets[0] if dataset is None else dataset)
    settings, first = SettingsTable(part), part.studies[0]
    on_front = pareto.front(settings.searched)
    chances = _membership(settings, on_front)
    points = tuple(
        JointPoint(
            study=row.record.name,
            dataset=first.cell.dataset.name,
            defense=row.record.cell.defense,
            number=row.trial.number,
            trial=row.trial,
            sure=sure,
            again=row.again,
            chance=chance,
            on_front=on,
        )
        for row, sure, chance, on in zip(settings.rows, settings.sure, chances, on_front.tolist(), strict=True)
    )
    front = sorted(np.flatnonzero(on_front).tolist(), key=lambda i: (*_by_utility(points[i]), i))
    reference = _reference(part.studies)
    best = joint_knee_of(settings, front)
    undefended = settings.undefended
    return Joint(
        dataset=first.cell.dataset.name,
        metric=first.cell.metric,
        parts=part.studies,
        points=points,
        front=tuple(points[i] for i in front),
        together=tuple(_together([points[i] for i in group]) for group in _groups(settings, front)),
        reference=reference,
        hypervolume=pareto.hypervolume(settings.searched, reference),
        knee=None if best is None else points[best],
        undefended=undefended,
        undefended_sure=None if undefended is None or first.measure == 1 else certainties([undefended])[0],
        alone=settings.alone,
        settings=settings,
    )


def _by_utility(point: JointPoint) -> tuple[float, float]:
    utility, leakage = point.objectives
    return -utility, leakage


def _membership(settings: SettingsTable, on_front: Bools) -> list[float]:
    """Return every setting's chance to be on the joint front; by the means alone without several seeds."""
    if settings.own is not None:
        found = membership_of_many(on_front, *settings.own)
    elif (block := settings.whole) is not None:
        found = membership(dominance(differences(block.utilities), leakage_differences(block.gains)))
    else:
        found = np.asarray(on_front, dtype=np.float64)
    return [float(chance) for chance in found]


def _reference(parts: Sequence[StudyRecord]) -> tuple[float, float]:
    """Return the studies' reference point, of several the worst one."""
    return min(p.reference_point[0] for p in parts), max(p.reference_point[1] for p in parts)


def _groups(settings: SettingsTable, front: Sequence[int]) -> list[list[int]]:
    """Return the front in groups without a significant difference; without several seeds each point alone."""
    if settings.own is not None:
        return merged_of_many(front, *settings.own)
    if (block := settings.whole) is None:
        return [[i] for i in front]
    utility, leakage = differences(block.utilities[front]), leakage_differences(block.gains[:, front])
    return [[front[k] for k in group] for group in merged(range(len(front)), utility, leakage)]


def _together(points: Sequence[JointPoint]) -> Together:
    utilities, leakages = zip(*(p.objectives for p in points), strict=True)
    return Together(tuple(points), (min(utilities), max(utilities)), (min(leakages), max(leakages)))

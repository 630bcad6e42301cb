"""The joint Pareto front of a campaign's studies on one data set, over the settings of all defenses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from tune_vfl.analysis.joint_compromise import joint_knee_of
from tune_vfl.analysis.reliability import LocalBaseline
from tune_vfl.analysis.setting import MeasuredModel, Setting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.metrics import pareto
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics import differences, leakage_differences, merged, merged_of_many


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

    points: tuple[Setting, ...]
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
        alone: the label party's own model; None where it was not measured.
        settings: the points in the same order, with their statistics over seeds.
    """

    dataset: str
    metric: str
    parts: tuple[StudyRecord, ...]
    points: tuple[Setting, ...]
    front: tuple[Setting, ...]
    together: tuple[Together, ...]
    reference: tuple[float, float]
    hypervolume: float
    knee: Setting | None
    undefended: MeasuredModel | None
    alone: LocalBaseline | None
    settings: SettingsTable = field(repr=False)

    def point(self, study: str, number: int) -> Setting | None:
        """Return a trial's setting; None for a trial without objectives, or of another data set."""
        return next((p for p in self.points if p.study == study and p.number == number), None)

    def of(self, defense: str) -> tuple[Setting, ...]:
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
    points, front = tuple(settings.rows), tuple(settings.front())
    places = [point.place for point in front]
    reference = _reference(part.studies)
    best = joint_knee_of(settings, places)
    return Joint(
        dataset=first.cell.dataset.name,
        metric=first.cell.metric,
        parts=part.studies,
        points=points,
        front=front,
        together=tuple(_together([points[i] for i in group]) for group in _groups(settings, places)),
        reference=reference,
        hypervolume=pareto.hypervolume(settings.searched, reference),
        knee=None if best is None else points[best],
        undefended=settings.baseline,
        alone=settings.alone,
        settings=settings,
    )


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


def _together(points: Sequence[Setting]) -> Together:
    utilities, leakages = zip(*(p.objectives for p in points), strict=True)
    return Together(tuple(points), (min(utilities), max(utilities)), (min(leakages), max(leakages)))

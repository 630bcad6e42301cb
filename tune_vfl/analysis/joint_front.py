"""The joint Pareto front of a campaign's studies on one data set, over the settings of all defenses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from tune_vfl.analysis.compromise import knee_of
from tune_vfl.analysis.setting import Setting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.metrics import pareto
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics import differences, leakage_differences, merged, merged_of_many


class HypervolumeStep(NamedTuple):
    """The joint hypervolume after one more valid trial.

    Attributes:
        finished: the trial's end; ``study``, ``number``: its identity.
        hypervolume: that of the joint front at that time.
    """

    finished: datetime
    study: str
    number: int
    hypervolume: float


class Joint:
    """All studies of a campaign on one data set, and their joint front.

    Args:
        campaign: its studies on the data set; a single one is a campaign of one.

    Attributes:
        dataset: its name; ``metric``: of the utility.
        parts: the studies, in the order of the campaign.
        settings: all settings with objectives, with their statistics over seeds.
        points: the same settings, study by study, by number.
        undefended: the baseline of all settings, the undefended model that most studies share; None without.
        alone: the label party's own model; None where it was not measured.
        reference: the hypervolume's reference point ``(utility, leakage)``, of several studies' the worst.
    """

    def __init__(self, campaign: CampaignRecord | StudyRecord) -> None:
        self.settings = SettingsTable(campaign)
        self.parts = self.settings.parts
        cell = self.parts[0].cell
        self.dataset, self.metric = cell.dataset.name, cell.metric
        self.points = tuple(self.settings.rows)
        self.undefended, self.alone = self.settings.baseline, self.settings.alone
        self.reference = (
            min(p.reference_point[0] for p in self.parts),
            max(p.reference_point[1] for p in self.parts),
        )

    @cached_property
    def front(self) -> tuple[Setting, ...]:
        """The settings on the joint front, by falling utility, all equal ones included."""
        return tuple(self.settings.front())

    @cached_property
    def by_leakage(self) -> tuple[Setting, ...]:
        """The front by rising leakage, then by number."""
        return tuple(sorted(self.front, key=lambda point: (point.leakage, point.number)))

    @cached_property
    def together(self) -> tuple[tuple[Setting, ...], ...]:
        """The front in groups of neighbors without a significant difference, each by falling utility."""
        groups = _groups(self.settings, [point.place for point in self.front])
        return tuple(tuple(self.points[i] for i in group) for group in groups)

    @cached_property
    def hypervolume(self) -> float:
        """The hypervolume of the joint front."""
        return pareto.hypervolume(self.settings.searched, self.reference)

    @cached_property
    def knee(self) -> Setting | None:
        """The best compromise, among confirmed settings where there are any; None without a point."""
        best = knee_of(self.settings, [point.place for point in self.front])
        return None if best is None else self.points[best]

    def point(self, study: str, number: int) -> Setting | None:
        """Return a trial's setting; None for a trial without objectives, or of another data set."""
        return next((p for p in self.points if p.study == study and p.number == number), None)

    def of(self, defense: str) -> tuple[Setting, ...]:
        """Return the settings of one defense."""
        return tuple(p for p in self.points if p.defense == defense)

    @cached_property
    def history(self) -> tuple[HypervolumeStep, ...]:
        """The joint hypervolume after each trial that counts, in the order of their ends."""
        counted = [(t.finished, i, t.number, p.name, t.outcome) for i, p in enumerate(self.parts) for t in p.counted]
        held, steps = pareto.GrowingFront(self.reference), []
        for finished, _, number, study, outcome in sorted(counted, key=lambda step: step[:3]):
            if outcome.outcome == "ok":
                held.add(*outcome.objectives)
            steps.append(HypervolumeStep(finished, study, number, held.area))
        return tuple(steps)

    @property
    def defenses(self) -> tuple[str, ...]:
        """The defenses, each once, in the order of the campaign."""
        return tuple(dict.fromkeys(part.cell.defense for part in self.parts))


def joint_of(campaign: CampaignRecord, dataset: str | None = None) -> Joint:
    """Return the joint front of a campaign's studies on one data set.

    Args:
        campaign: the campaign.
        dataset: its name; None where the campaign has only one.
    """
    return Joint(campaign.on(campaign.datasets[0] if dataset is None else dataset))


def _groups(settings: SettingsTable, front: Sequence[int]) -> list[list[int]]:
    """Return the front in groups without a significant difference; without several seeds each point alone."""
    if settings.own is not None:
        return merged_of_many(front, *settings.own)
    if (block := settings.whole) is None:
        return [[i] for i in front]
    utility, leakage = differences(block.utilities[front]), leakage_differences(block.gains[:, front])
    return [[front[k] for k in group] for group in merged(range(len(front)), utility, leakage)]

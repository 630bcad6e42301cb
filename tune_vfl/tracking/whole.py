"""All studies of one MLflow experiment at one moment: their fronts, the joint fronts, compromises and hypervolumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tune_vfl.analysis.front_statistics import FrontStatistics, front_statistics
from tune_vfl.analysis.joint_compromise import joint_knee_of
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.metrics import pareto
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord

# A trial's key among several studies: the study's name and the trial's number.
Place = tuple[str, int]


@dataclass(frozen=True)
class Whole:
    """All studies of an experiment at one moment.

    Attributes:
        name: the experiment's.
        studies: with their trials, in the order of arrival.
        known: the campaign as read from the ledger, with its joint confirmation; None where it was not read.
    """

    name: str
    studies: tuple[StudyRecord, ...]
    known: CampaignRecord | None = None

    @cached_property
    def standings(self) -> Mapping[str, FrontStatistics]:
        """The ranks of each study's trials, by its name."""
        return {study.name: front_statistics(study) for study in self.studies}

    @property
    def lone(self) -> bool:
        """Whether the experiment is a single study outside any campaign."""
        return is_lone(self.name, [study.name for study in self.studies])

    @property
    def trials(self) -> int:
        """The number of trials that count."""
        return sum(len(s.counted) for s in self.studies)

    @cached_property
    def datasets(self) -> dict[str, tuple[StudyRecord, ...]]:
        """The studies on each data set, by its name."""
        names = dict.fromkeys(s.cell.dataset.name for s in self.studies)
        return {name: tuple(s for s in self.studies if s.cell.dataset.name == name) for name in names}

    @property
    def campaign(self) -> CampaignRecord:
        """The studies as a campaign."""
        if self.known is not None:
            return replace(self.known, studies=self.studies)
        spec, trials = self.studies[0].spec, sum(s.spec.budget.trials for s in self.studies)
        return CampaignRecord(self.name, self.studies, trials, dict(spec.constraints), spec.confidence)

    @cached_property
    def joint(self) -> dict[str, list[Place]]:
        """The joint front of each data set; for a single study its own front."""
        found: dict[str, list[Place]] = {}
        for dataset, studies in self.datasets.items():
            # A point behind its own study's front is on no joint front.
            ok = [(s.name, t) for s in studies for t in s.ok if self.standings[s.name].ranks[t.number] == 0]
            kept = pareto.front([t.outcome.objectives for _, t in ok])
            found[dataset] = [(name, t.number) for (name, t), stays in zip(ok, kept, strict=True) if stays]
        return found

    @cached_property
    def knees(self) -> frozenset[Place]:
        """The best compromise of each data set."""
        if self.lone:
            number = self.standings[self.name].knee
            return frozenset() if number is None else frozenset({(self.name, number)})
        found = set()
        for dataset, joint in self.joint.items():
            settings, on = SettingsTable(self.campaign.on(dataset)), set(joint)
            places = [(row.record.name, row.trial.number) for row in settings.rows]
            best = joint_knee_of(settings, [i for i, place in enumerate(places) if place in on])
            found |= set() if best is None else {places[best]}
        return frozenset(found)

    def hypervolume(self, dataset: str) -> float:
        """Return the hypervolume of a data set's joint front."""
        studies, on = self.datasets[dataset], set(self.joint[dataset])
        points = [t.outcome.objectives for s in studies for t in s.ok if (s.name, t.number) in on]
        return pareto.hypervolume(points, reference_of(studies))


def is_lone(experiment: str, studies: Iterable[str]) -> bool:
    """Return whether the experiment is a single study outside any campaign, recognized by equal names."""
    return set(studies) == {experiment}


def reference_of(studies: Iterable[StudyRecord]) -> tuple[float, float]:
    """Return the hypervolume's reference point for studies on one data set: the worst of theirs."""
    utilities, leakages = zip(*(s.reference_point for s in studies), strict=True)
    return min(utilities), max(leakages)

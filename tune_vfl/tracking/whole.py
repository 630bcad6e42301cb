"""All studies of one MLflow experiment at one moment, with their ranks and joint fronts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.records.answers import SettingKey
from tune_vfl.records.campaigns import CampaignRecord


@dataclass(frozen=True)
class Whole:
    """All studies of an experiment at one moment.

    Attributes:
        campaign: the studies with their trials, in the order of arrival.
    """

    campaign: CampaignRecord

    @property
    def trials(self) -> int:
        """The number of trials that count."""
        return sum(len(s.counted) for s in self.campaign.studies)

    @cached_property
    def ranks(self) -> Mapping[str, Mapping[int, int]]:
        """The ranks of each study's trials in the study, by its name and their numbers; 0 is its front."""
        tables = {study.name: SettingsTable(study) for study in self.campaign.studies}
        return {
            name: {row.number: rank for row, rank in zip(table.rows, table.ranks, strict=True)}
            for name, table in tables.items()
        }

    @cached_property
    def joints(self) -> Mapping[str, Joint]:
        """The joint front of each data set, by its name; for a single study its own front."""
        return {dataset: Joint(self.campaign.on(dataset)) for dataset in self.campaign.datasets}

    @cached_property
    def joint(self) -> frozenset[SettingKey]:
        """The trials on a joint front."""
        return frozenset(point.key for joint in self.joints.values() for point in joint.front)

    @cached_property
    def knees(self) -> frozenset[SettingKey]:
        """The best compromise of each data set."""
        return frozenset(joint.knee.key for joint in self.joints.values() if joint.knee is not None)

"""Sequential design of a confirmation: the settings to measure again, and the number of fresh seeds for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tune_vfl.analysis.setting import Setting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.confirmation.jobs import undefended_of
from tune_vfl.confirmation.values import names_of, searched, steady
from tune_vfl.errors import StudyError
from tune_vfl.evaluation.certainty import Name
from tune_vfl.ledger.confirmation_store import Place
from tune_vfl.records.answers import SettingKey
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import FIRST_SEED, UNDEFENDED, SeedRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec.cell import UNDEFENDED_SEEDS
from tune_vfl.statistics import (
    Plan,
    candidates,
    differences,
    dominance,
    leakage_differences,
    membership,
    membership_of_many,
    own_levels,
    plan,
    totals,
    worst_levels,
)
from tune_vfl.statistics.arrays import Floats

MANY = 1000
"""Above this number of settings, those without a chance against the front are not compared with each other."""


@dataclass(frozen=True)
class Contest:
    """The candidate settings on one data set, of one study or of several that compete.

    Attributes:
        studies: a campaign's studies on this data set.
        points: the candidates, the search's joint front first.
        front: that front.
        names: the attacks and their candidates in the search.
        seeds: the number of common seeds for every point of the final front.
        undefended: by study, the study that records its undefended model; see :func:`undefended_of`.
    """

    studies: tuple[StudyRecord, ...]
    points: tuple[Setting, ...]
    front: frozenset[SettingKey]
    names: tuple[Name, ...]
    seeds: int
    undefended: Mapping[str, str]

    @classmethod
    def of(cls, campaign: CampaignRecord | StudyRecord, seeds: int) -> Contest:
        """Choose the joint front of all studies and the points most likely to belong to it.

        Args:
            campaign: studies on one data set, with the same seeds; at least one trial ended ok.
            seeds: the number of common seeds for every point of the final front.

        Raises:
            UsageError: for fewer than 1 seed.
        """
        totals(seeds)
        settings = SettingsTable(campaign)
        studies, ok, on_front = settings.parts, settings.rows, settings.on_front
        names = names_of(row.outcome for row in ok)
        several = len(studies[0].cell.seeds) > 1
        chances = _member(settings, names if several else [])
        chosen = candidates(chances, on_front, sum(len(record.counted) for record in studies))
        front = frozenset(row.key for row in ok if row.on_front)
        shared = undefended_of(studies)
        return cls(studies, tuple(ok[i] for i in chosen), front, tuple(names), seeds, shared)

    def study(self, name: str) -> StudyRecord:
        """Return the study of this name."""
        return next(s for s in self.studies if s.name == name)

    @property
    def dataset(self) -> str:
        """The data set's name."""
        return self.studies[0].cell.dataset.name

    @property
    def common(self) -> int:
        """The number of seeds of every point of the final front: the requested number, at least two."""
        return max(self.seeds, min(totals(self.seeds)))

    @property
    def most(self) -> int:
        """The largest number of seeds for one point."""
        return max(totals(self.seeds))

    @property
    def measured_undefended(self) -> tuple[str, ...]:
        """The studies that record an undefended model of one of the candidates."""
        taking_part = {e.study for e in self.points}
        return tuple(dict.fromkeys(self.undefended[s.name] for s in self.studies if s.name in taking_part))

    def plan(self, held: Mapping[Place, SeedRecord], failed: Collection[SettingKey] = ()) -> Plan:
        """Plan the number of seeds for each candidate, from all records so far.

        Args:
            held: the ledger's records; those of other trials are ignored.
            failed: settings whose trainings failed in this run.
        """
        seeds = range(FIRST_SEED, FIRST_SEED + self.most)
        utility = np.full((len(self.points), len(seeds)), np.nan)
        gains = np.full((len(self.names), *utility.shape), np.nan)
        lost = np.zeros(len(self.points), dtype=bool)
        for i, entrant in enumerate(self.points):
            lost[i] = entrant.key in failed
            for s, seed in enumerate(seeds):
                record = held.get((*entrant.key, seed))
                if record is not None and record.outcome == "ok":
                    utility[i, s] = record.utility
                    gains[:, i, s] = steady(record, entrant.outcome, self.names)
                lost[i] |= record is not None and record.outcome != "ok"
        return plan(utility, gains, self.seeds, lost)

    def missing(self, now: Plan, held: Mapping[Place, SeedRecord], failed: Collection[SettingKey] = ()) -> list[Place]:
        """Return the next trainings: each setting with its missing seeds."""
        gone = {(study, number) for (study, number, _), record in held.items() if record.outcome != "ok"} | set(failed)
        wanted = {(name, UNDEFENDED): max(UNDEFENDED_SEEDS, self.most) for name in self.measured_undefended}
        wanted |= {e.key: int(n) for e, n in zip(self.points, now.wanted, strict=True)}
        return [
            (*setting, seed)
            for setting, count in wanted.items()
            if setting not in gone
            for seed in range(FIRST_SEED, FIRST_SEED + count)
            if (*setting, seed) not in held
        ]


def contests_of(campaign: CampaignRecord, seeds: int) -> list[Contest]:
    """Return a contest for each data set with an ok trial.

    Raises:
        StudyError: when no trial of any study has ended ok.
        UsageError: for fewer than 1 seed.
    """
    parts = [campaign.on(dataset) for dataset in campaign.datasets]
    if not any(record.ok for record in campaign.studies):
        raise StudyError(
            f"{campaign.name!r} has nothing to confirm: none of its trials ended ok; "
            f"'tune-vfl resume {campaign.name}' goes on with it"
        )
    return [Contest.of(part, seeds) for part in parts if any(record.ok for record in part.studies)]


def _member(settings: SettingsTable, names: Sequence[Name]) -> Floats:
    """Return each setting's chance to be on the front, by the search's measurements; without names by ranks alone."""
    if not names:
        # One seed gives no variance: the neighbors are the points that only the front dominates.
        return np.asarray([rank <= 1 for rank in settings.ranks], dtype=np.float64)
    block = searched([row.outcome for row in settings.rows], names)
    if len(settings.rows) > MANY:
        return membership_of_many(settings.on_front, own_levels(block.utility), worst_levels(block.advantages))
    return membership(dominance(differences(block.utility), leakage_differences(block.advantages)))

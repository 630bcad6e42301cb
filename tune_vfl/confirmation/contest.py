"""Sequential design of a confirmation: the settings to measure again, and the number of fresh seeds for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tune_vfl.confirmation.jobs import Place, undefended_of
from tune_vfl.confirmation.values import names_of, searched, steady
from tune_vfl.errors import StudyError
from tune_vfl.evaluation.certainty import Name
from tune_vfl.metrics import pareto
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import FIRST_SEED, UNDEFENDED, SeedRecord
from tune_vfl.records.joint_confirmation import Setting
from tune_vfl.records.studies import StudyRecord, TrialRecord
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
from tune_vfl.statistics.arrays import Bools, Floats

MANY = 1000
"""Above this number of settings, those without a chance against the front are not compared with each other."""


class Entrant(NamedTuple):
    """A candidate setting: a study's name and a trial."""

    study: str
    trial: TrialRecord

    @property
    def number(self) -> int:
        """The trial's number."""
        return self.trial.number

    @property
    def setting(self) -> Setting:
        """The pair of study and number."""
        return self.study, self.trial.number


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
    points: tuple[Entrant, ...]
    front: frozenset[Setting]
    names: tuple[Name, ...]
    seeds: int
    undefended: Mapping[str, str]

    @classmethod
    def of(cls, studies: Sequence[StudyRecord], seeds: int) -> Contest:
        """Choose the joint front of all studies and the points most likely to belong to it.

        Args:
            studies: on one data set, with the same seeds; at least one trial ended ok.
            seeds: the number of common seeds for every point of the final front.

        Raises:
            UsageError: for fewer than 1 seed.
        """
        totals(seeds)
        ok = [Entrant(record.name, trial) for record in studies for trial in record.ok]
        on_front = pareto.front([e.trial.outcome.objectives for e in ok])
        names = names_of(e.trial.outcome for e in ok)
        several = len(studies[0].cell.seeds) > 1
        chances = _member([e.trial for e in ok], names if several else [], on_front)
        chosen = candidates(chances, on_front, sum(len(record.counted) for record in studies))
        front = frozenset(e.setting for e, on in zip(ok, on_front.tolist(), strict=True) if on)
        shared = undefended_of(studies)
        return cls(tuple(studies), tuple(ok[i] for i in chosen), front, tuple(names), seeds, shared)

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

    def plan(self, held: Mapping[Place, SeedRecord], failed: Collection[Setting] = ()) -> Plan:
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
            lost[i] = entrant.setting in failed
            for s, seed in enumerate(seeds):
                record = held.get((*entrant.setting, seed))
                if record is not None and record.outcome == "ok":
                    utility[i, s] = record.utility
                    gains[:, i, s] = steady(record, entrant.trial.outcome, self.names)
                lost[i] |= record is not None and record.outcome != "ok"
        return plan(utility, gains, self.seeds, lost)

    def missing(self, now: Plan, held: Mapping[Place, SeedRecord], failed: Collection[Setting] = ()) -> list[Place]:
        """Return the next trainings: each setting with its missing seeds."""
        gone = {(study, number) for (study, number, _), record in held.items() if record.outcome != "ok"} | set(failed)
        wanted = {(name, UNDEFENDED): max(UNDEFENDED_SEEDS, self.most) for name in self.measured_undefended}
        wanted |= {e.setting: int(n) for e, n in zip(self.points, now.wanted, strict=True)}
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
    parts = [campaign.on(dataset).studies for dataset in campaign.datasets]
    if not any(record.ok for record in campaign.studies):
        raise StudyError(
            f"{campaign.name!r} has nothing to confirm: none of its trials ended ok; "
            f"'tune-vfl resume {campaign.name}' goes on with it"
        )
    return [Contest.of(studies, seeds) for studies in parts if any(record.ok for record in studies)]


def _member(trials: Sequence[TrialRecord], names: Sequence[Name], on_front: Bools) -> Floats:
    """Return each trial's chance to be on the front, by the search's measurements; without names by ranks alone."""
    if not names:
        # One seed gives no variance: the neighbors are the points that only the front dominates.
        return np.asarray(pareto.ranks([t.outcome.objectives for t in trials]) <= 1, dtype=np.float64)
    block = searched([t.outcome for t in trials], names)
    if len(trials) > MANY:
        return membership_of_many(on_front, own_levels(block.utility), worst_levels(block.advantages))
    return membership(dominance(differences(block.utility), leakage_differences(block.advantages)))

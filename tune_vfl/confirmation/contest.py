"""Which settings are measured again, and which of them deserve more seeds. Plain data in, plain data out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tune_vfl.confirmation.values import names_of, searched, steady
from tune_vfl.errors import StudyError
from tune_vfl.evaluation.certainty import Name
from tune_vfl.ledger.confirmations import FIRST_SEED, UNDEFENDED, Place, SeedRecord
from tune_vfl.metrics import pareto
from tune_vfl.spec.cell import UNDEFENDED_SEEDS
from tune_vfl.statistics import Plan, candidates, differences, dominance, leakage_differences, membership, plan, totals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tune_vfl.ledger.records import StudyRecord, TrialRecord


@dataclass(frozen=True)
class Contest:
    """The settings of one study that are measured again.

    Attributes:
        record: the study as it stands.
        points: the trials that take part, the search's front first.
        front: the numbers of the search's front.
        names: the attacks' candidates, as the search found them.
        seeds: how many common seeds every kept point is to have.
    """

    record: StudyRecord
    points: tuple[TrialRecord, ...]
    front: frozenset[int]
    names: tuple[Name, ...]
    seeds: int

    @classmethod
    def of(cls, record: StudyRecord, seeds: int) -> Contest:
        """Take the front and its likeliest neighbors.

        Raises:
            StudyError: when no trial has ended ok.
            UsageError: for fewer than 1 seed.
        """
        totals(seeds)
        if not record.ok:
            raise StudyError(
                f"study {record.name!r} has nothing to confirm: none of its trials ended ok; "
                f"'tune-vfl resume {record.name}' goes on with it"
            )
        on_front = pareto.front([t.outcome.objectives for t in record.ok])
        names = names_of(t.outcome for t in record.ok)
        chosen = candidates(_member(record, names), on_front, len(record.counted))
        front = frozenset(t.number for t, on in zip(record.ok, on_front.tolist(), strict=True) if on)
        return cls(record, tuple(record.ok[i] for i in chosen), front, tuple(names), seeds)

    @property
    def common(self) -> int:
        """How many seeds every kept point has in the end: what was asked for, and never a single one."""
        return max(self.seeds, totals(self.seeds)[0])

    @property
    def most(self) -> int:
        """How many seeds the most contested point gets."""
        return totals(self.seeds)[-1]

    def plan(self, held: Mapping[Place, SeedRecord], failed: Collection[int] = ()) -> Plan:
        """Say who has to run how often, from everything that is known so far.

        Args:
            held: the records that the ledger has; those of other trials are passed over.
            failed: trials that could not be measured in this run.
        """
        seeds = range(FIRST_SEED, FIRST_SEED + self.most)
        utility = np.full((len(self.points), len(seeds)), np.nan)
        gains = np.full((len(self.names), *utility.shape), np.nan)
        lost = np.zeros(len(self.points), dtype=bool)
        for i, trial in enumerate(self.points):
            lost[i] = trial.number in failed
            for s, seed in enumerate(seeds):
                record = held.get((trial.number, seed))
                if record is not None and record.outcome == "ok":
                    utility[i, s] = record.utility
                    gains[:, i, s] = steady(record, trial.outcome, self.names)
                lost[i] |= record is not None and record.outcome != "ok"
        return plan(utility, gains, self.seeds, lost)

    def missing(self, now: Plan, held: Mapping[Place, SeedRecord], failed: Collection[int] = ()) -> list[Place]:
        """Return what is to be run next: each setting with the seeds that it should have and has not."""
        wanted = {t.number: int(n) for t, n in zip(self.points, now.wanted, strict=True)}
        gone = {number for (number, _), record in held.items() if record.outcome != "ok"} | set(failed)
        wanted = {UNDEFENDED: max(UNDEFENDED_SEEDS, self.most), **wanted}
        return [
            (number, seed)
            for number, count in wanted.items()
            if number not in gone
            for seed in range(FIRST_SEED, FIRST_SEED + count)
            if (number, seed) not in held
        ]


def _member(record: StudyRecord, names: list[Name]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return each ok trial's chance to be on the front, by what the search measured."""
    if len(record.cell.seeds) < 2 or not names:
        # One seed has no spread: the neighbors are those that only the front dominates.
        ranks = pareto.ranks([t.outcome.objectives for t in record.ok])
        return np.asarray(np.where(ranks <= 1, 1.0 - 0.5 * ranks, 0.0), dtype=np.float64)
    block = searched([t.outcome for t in record.ok], names)
    return membership(dominance(differences(block.utility), leakage_differences(block.advantages)))

"""Table of the measured settings of several studies on one data set, with confirmations and intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from tune_vfl.analysis.reliability import LocalBaseline, local_baseline_of, scale_of
from tune_vfl.analysis.seed_block import SeedBlock, block_of, blocks_of, values_of
from tune_vfl.analysis.setting import MeasuredModel, Setting
from tune_vfl.evaluation.certainty import Certainty, Interval, certainties
from tune_vfl.metrics import pareto
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics import (
    Own,
    Scale,
    differences,
    dominance,
    leakage_differences,
    membership,
    membership_of_many,
    own_levels,
    worst_levels,
)
from tune_vfl.statistics.arrays import Bools, Floats
from tune_vfl.statistics.intervals import FEWEST_SETTINGS


class SettingsTable:
    """All settings with objectives of several studies on one data set.

    Args:
        campaign: the studies; a single one is a campaign of one.

    Attributes:
        campaign: as given; ``parts``: its studies.
        trials: every finished trial, failed and preempted ones included, study by study, by number.
        rows: the settings among them, in the same order.
        undefended: the undefended model that they are compared with: the one that most studies share, the first of
            equals. None without one.
    """

    def __init__(self, campaign: CampaignRecord | StudyRecord) -> None:
        self.campaign = CampaignRecord.of(campaign)
        self.parts = self.campaign.studies
        self.trials = [setting for record in self.parts for setting in self._trials(record)]
        self.rows = [setting for setting in self.trials if setting.ok]
        found = [p.baseline for p in self.parts if p.baseline is not None and p.baseline.outcome == "ok"]
        shared = Counter(tuple(values_of(outcome)) for outcome in found)
        self.undefended = max(found, key=lambda outcome: shared[tuple(values_of(outcome))], default=None)

    def _trials(self, record: StudyRecord) -> Iterator[Setting]:
        points = record.confirmation.points if record.confirmation is not None else ()
        again: Mapping[int, ConfirmedPoint] = {p.number: p for p in points if p.outcome == "ok"}
        for trial in sorted(record.trials, key=lambda t: t.number):
            yield Setting(self, record, trial.outcome, trial, again.get(trial.number))

    @cached_property
    def place(self) -> dict[tuple[str, int], int]:
        """The settings' places, by study and number."""
        return {(row.study, row.number): i for i, row in enumerate(self.rows)}

    @cached_property
    def searched(self) -> Floats:
        """``(N, 2)`` utility and leakage as the search measured them."""
        return np.asarray([row.objectives for row in self.rows], dtype=np.float64).reshape(-1, 2)

    @cached_property
    def known(self) -> Floats:
        """``(N, 2)`` utility and leakage as they are best known: by a confirmation where there is one."""
        found = self.searched.copy()
        for i, row in enumerate(self.rows):
            if row.again is not None:
                found[i] = row.again.utility, row.again.leakage
        return found

    @cached_property
    def confirmed(self) -> list[bool]:
        """Whether a confirmation placed each setting on the front."""
        return [row.confirmed for row in self.rows]

    @cached_property
    def on_front(self) -> Bools:
        """``(N,)`` whether the search's numbers place each setting on the front."""
        return pareto.front(self.searched)

    @cached_property
    def ranks(self) -> list[int]:
        """Every setting's rank by the search's numbers; 0 is the front."""
        return [int(rank) for rank in pareto.ranks(self.searched)]

    def front(self, attack: str | None = None) -> list[Setting]:
        """Return the settings on the front, by falling utility; equal points all stay.

        Args:
            attack: the front is that against this attack alone, of the settings that met it; its advantage is then
                their leakage.
        """
        if attack is None:
            met, on = self.rows, self.on_front
        else:
            met = [row.against(attack) for row in self.rows if attack in row.outcome.attacks]
            on = pareto.front([row.objectives for row in met])
        return sorted((row for row, stays in zip(met, on.tolist(), strict=True) if stays), key=lambda row: -row.utility)

    @cached_property
    def chances(self) -> list[float]:
        """Every setting's chance to be on the front; by the means alone without several seeds."""
        if self.own is not None:
            found = membership_of_many(self.on_front, *self.own)
        elif (block := self.whole) is not None:
            found = membership(dominance(differences(block.utilities), leakage_differences(block.gains)))
        else:
            found = np.asarray(self.on_front, dtype=np.float64)
        return [float(chance) for chance in found]

    @cached_property
    def blocks(self) -> list[SeedBlock]:
        """The settings in blocks, see :func:`tune_vfl.analysis.seed_block.blocks_of`."""
        return blocks_of(
            [row.outcome for row in self.rows],
            [self._undefended_of(row.record) for row in self.rows],
        )

    @cached_property
    def whole(self) -> SeedBlock | None:
        """All settings as one block, for their differences, in which no undefended model takes part.

        None where seeds cannot say anything of all of them: a single one, other ones, or settings without attacks.
        """
        if len(self.blocks) == 1:
            (block,) = self.blocks
        elif len({block.utilities.shape[1] for block in self.blocks}) == 1:
            certain = all(block.certain and block.names for block in self.blocks)
            block = block_of([row.outcome for row in self.rows], range(len(self.rows)), None, certain=certain)
        else:
            return None
        return block if block.certain and block.names else None

    def _undefended_of(self, record: StudyRecord) -> Outcome | None:
        if record.baseline is not None and record.baseline.outcome == "ok":
            return record.baseline
        alike = any(p.cell.model == record.cell.model for p in self.parts if p.baseline is self.undefended)
        return self.undefended if alike else None

    @cached_property
    def sure(self) -> list[Certainty]:
        """The settings' intervals, in their order."""
        found: dict[int, Certainty] = {}
        for block in self.blocks:
            found |= dict(zip(block.rows.tolist(), block.sure, strict=True))
        return [found[i] for i in range(len(self.rows))]

    @property
    def baseline(self) -> MeasuredModel | None:
        """The undefended model with its intervals; None without one."""
        return None if self.undefended is None else MeasuredModel(self, self.parts[0], self.undefended)

    @cached_property
    def undefended_sure(self) -> Certainty | None:
        """The undefended model's intervals; None without one."""
        return None if self.undefended is None else certainties([self.undefended])[0]

    def advantage_interval(self, i: int, attacker: str) -> Interval | None:
        """Return the 90% interval of one attacker's advantage in one setting; None where seeds give none.

        Args:
            i: the setting's place.
            attacker: its attack, with several passive parties ``ATTACK/PARTY``.
        """
        block = next(b for b in self.blocks if i in b.rows)
        found = block.advantage_intervals(attacker)
        return None if found is None else found[int(np.flatnonzero(block.rows == i)[0])]

    @cached_property
    def own(self) -> tuple[Own, Own] | None:
        """Utility and leakage without seed effects common to all settings; None without several seeds and settings."""
        if self.whole is None or len(self.rows) < FEWEST_SETTINGS:
            return None
        return own_levels(self.whole.utilities), worst_levels(self.whole.gains)

    @cached_property
    def scale(self) -> Scale | None:
        """The scale of utility against leakage; None where no undefended model has numbers."""
        return next((scale for p in self._with_undefended() if (scale := scale_of(p)) is not None), None)

    @cached_property
    def alone(self) -> LocalBaseline | None:
        """The label party's own model; None where it was not measured."""
        return next((a for p in self._with_undefended() if (a := local_baseline_of(p)) is not None), None)

    def _with_undefended(self) -> Iterator[StudyRecord]:
        held = values_of(self.undefended)
        return (p for p in self.parts if held and values_of(p.baseline) == held)

    def not_fitting(self, study: str, attack: str) -> str | None:
        """Return why an attack cannot be carried out on a study; None where nothing is said of that."""
        left_out = (left for left in self.campaign.skipped if (left.study, left.attack) == (study, attack))
        return next(("; ".join(left.problems) for left in left_out), None)

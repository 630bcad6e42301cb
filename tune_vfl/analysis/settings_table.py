"""Table of the measured settings of several studies on one data set, with confirmations and intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tune_vfl.analysis.compromise import scale_of
from tune_vfl.analysis.reliability import LocalBaseline, local_baseline_of
from tune_vfl.evaluation.certainty import (
    Certainty,
    Interval,
    Name,
    advantages_of,
    candidates_of,
    certainties,
    limits_of,
    names_of,
    utility_levels,
)
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord, Skipped
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.statistics import Estimate, Limits, Own, Scale, leakage_bounds, own_levels, worst_levels
from tune_vfl.statistics.arrays import Floats, Ints
from tune_vfl.statistics.intervals import FEWEST_SETTINGS


class SettingRow(NamedTuple):
    """One setting: its study, its trial, and its confirmation, whether it stayed on the front or not."""

    record: StudyRecord
    trial: TrialRecord
    again: ConfirmedPoint | None


class _Kind(NamedTuple):
    """Properties that the settings of one block share."""

    of_today: bool
    seeds: int
    undefended: tuple[float, ...]
    attacked: bool

    @property
    def certain(self) -> bool:
        return self.of_today and self.seeds > 1


@dataclass(frozen=True)
class SeedBlock:
    """Settings with the same seeds and the same undefended model, whose seed effects are estimated together.

    Attributes:
        rows: their places among all settings.
        outcomes: theirs.
        undefended: None where it is not known.
        certain: whether the spread over seeds says anything: there are several, and they were measured as of today.
    """

    rows: Ints
    outcomes: tuple[Outcome, ...]
    undefended: Outcome | None
    certain: bool

    @cached_property
    def utilities(self) -> Floats:
        """``(N, S)``."""
        return np.asarray([values_of(o) for o in self.outcomes], dtype=np.float64)

    @cached_property
    def names(self) -> list[Name]:
        """The attacks with their candidates."""
        return names_of(self.outcomes)

    @cached_property
    def gains(self) -> Floats:
        """Signed advantages ``(K, N, S)``."""
        return advantages_of(self.outcomes, self.names)

    @cached_property
    def levels(self) -> Estimate:
        """The utilities' levels, estimated with the undefended model's further seeds."""
        return utility_levels(self.utilities, values_of(self.undefended))

    @cached_property
    def limits(self) -> Limits:
        """Limits of the bounds of :attr:`gains`."""
        return limits_of(self.outcomes, self.names)

    @cached_property
    def sure(self) -> list[Certainty]:
        """The settings' intervals."""
        if self.certain:
            return certainties(self.outcomes, self.undefended, self.gains)
        return [Certainty(None, None, None, o.objectives[1], undecided=False, amplified={}) for o in self.outcomes]

    def met(self, attack: str) -> tuple[Ints, list[Name]]:
        """Return which settings (places here) met an attack, by whatever party, and its candidates."""
        names = [name for name in self.names if name[0].partition("/")[0] == attack]
        return np.asarray([i for i, o in enumerate(self.outcomes) if attack in o.attacks], dtype=np.int64), names

    def successes(self, settings: Ints, names: Sequence[Name]) -> Floats:
        """Return ``(K, N, S)`` successes; in the place of a candidate that a setting has not, another of the attack."""
        found = []
        for attacker, candidate in names:
            listed = [candidates_of(self.outcomes[i].attackers[attacker]) for i in settings]
            found.append([c[candidate] if candidate in c else next(iter(c.values())) for c in listed])
        return np.asarray(found, dtype=np.float64)


def values_of(outcome: Outcome | None) -> list[float]:
    """Return an outcome's utilities by seed; empty without a utility."""
    return [] if outcome is None or outcome.utility is None else outcome.utility.values


class SettingsTable:
    """All settings with objectives of several studies on one data set.

    Attributes:
        campaign: as given; ``parts``: its studies.
        rows: the settings, study by study, by number.
        undefended: the undefended model that they are compared with: the one that most studies share. None without one.
    """

    def __init__(self, campaign: CampaignRecord) -> None:
        self.campaign, self.parts = campaign, campaign.studies
        self.rows = [row for record in self.parts for row in _rows(record)]
        self.undefended = _undefended(self.parts)

    @cached_property
    def place(self) -> dict[tuple[str, int], int]:
        """The settings' places, by study and number."""
        return {(row.record.name, row.trial.number): i for i, row in enumerate(self.rows)}

    @cached_property
    def searched(self) -> Floats:
        """``(N, 2)`` utility and leakage as the search measured them."""
        return np.asarray([row.trial.outcome.objectives for row in self.rows], dtype=np.float64).reshape(-1, 2)

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
        return [row.again is not None and row.again.confirmed for row in self.rows]

    @cached_property
    def blocks(self) -> list[SeedBlock]:
        """The settings in blocks; within one campaign it is one block for each built architecture."""
        grouped: dict[_Kind, list[int]] = {}
        models: dict[_Kind, Outcome | None] = {}
        for i, row in enumerate(self.rows):
            model, outcome = self._undefended_of(row.record), row.trial.outcome
            of_today = row.record.measure > 1
            kind = _Kind(of_today, len(values_of(outcome)), tuple(values_of(model)), bool(outcome.attacks))
            grouped.setdefault(kind, []).append(i)
            models[kind] = model
        return [self._block(places, models[kind], certain=kind.certain) for kind, places in grouped.items()]

    def _block(self, places: Sequence[int], undefended: Outcome | None, *, certain: bool) -> SeedBlock:
        outcomes = tuple(self.rows[i].trial.outcome for i in places)
        return SeedBlock(np.asarray(places, dtype=np.int64), outcomes, undefended, certain)

    @cached_property
    def whole(self) -> SeedBlock | None:
        """All settings as one block, for their differences, in which no undefended model takes part.

        None where seeds cannot say anything of all of them: a single one, other ones, or settings without attacks.
        """
        if len(self.blocks) == 1:
            (block,) = self.blocks
        elif len({block.utilities.shape[1] for block in self.blocks}) == 1:
            certain = all(block.certain and block.names for block in self.blocks)
            block = self._block(range(len(self.rows)), None, certain=certain)
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

    def advantage_interval(self, i: int, attacker: str) -> Interval | None:
        """Return the 90% interval of one attacker's advantage in one setting; None where seeds give none.

        Args:
            i: the setting's place.
            attacker: its attack, with several passive parties ``ATTACK/PARTY``.
        """
        block = next(b for b in self.blocks if i in b.rows)
        if not block.certain or not block.names:
            return None
        own = [k for k, (a, _) in enumerate(block.names) if a == attacker]
        found = leakage_bounds(block.gains[own], block.limits.of(own, range(len(block.rows))))
        bounds = found[int(np.flatnonzero(block.rows == i)[0])]
        return bounds.lower, bounds.upper

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
        return _why(self.campaign.skipped, study, attack)


def _why(skipped: Sequence[Skipped], study: str, attack: str) -> str | None:
    return next(("; ".join(left.problems) for left in skipped if (left.study, left.attack) == (study, attack)), None)


def _rows(record: StudyRecord) -> Iterator[SettingRow]:
    points = record.confirmation.points if record.confirmation is not None else ()
    again: Mapping[int, ConfirmedPoint] = {p.number: p for p in points if p.outcome == "ok"}
    for trial in sorted(record.ok, key=lambda t: t.number):
        yield SettingRow(record, trial, again.get(trial.number))


def _undefended(parts: Sequence[StudyRecord]) -> Outcome | None:
    """Return the undefended model that most studies share, the first of equals."""
    found = [p.baseline for p in parts if p.baseline is not None and p.baseline.outcome == "ok"]
    counts = Counter(tuple(values_of(o)) for o in found)
    return max(found, key=lambda o: counts[tuple(values_of(o))], default=None)

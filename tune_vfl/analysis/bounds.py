"""Quantities that a constraint may bound: estimates of a setting and their one-sided bounds.

Names are those of :data:`tune_vfl.spec.constraints.Constraints`. Utility is bounded from below, everything else from
above. Where seeds say nothing, as from a single one, the bound is the estimate itself.

Each of them has one source: a confirmation of the setting where there is one, and else the search. What a confirmation
does not know is not known then, whatever the search said. The cost alone is always the search's: no confirmation
measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tune_vfl.analysis.seed_block import SeedBlock, values_of
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.evaluation.certainty import variance_over_rows
from tune_vfl.records.confirmations import ConfirmedNumber, ConfirmedPoint
from tune_vfl.spec.constraints import AT_LEAST, OF_ATTACK
from tune_vfl.statistics import clipped, differences_from
from tune_vfl.statistics.arrays import Bools, Floats, Ints
from tune_vfl.statistics.intervals import PRIOR
from tune_vfl.statistics.laws import t_quantile
from tune_vfl.statistics.leakage import upper_bounds


class Bounded(NamedTuple):
    """One quantity of N settings, with bounds; NaN where it is unknown.

    Attributes:
        value: ``(N,)`` estimates.
        bound: ``(N,)`` one-sided upper bounds; of the utility lower ones. Never on the other side of the estimate.
    """

    value: Floats
    bound: Floats


class UpperBounds:
    """Estimates and bounds of the settings of several studies, each computed once.

    Args:
        settings: side by side.
        confidence: of the bounds, one-sided; None takes the campaign's.
    """

    def __init__(self, settings: SettingsTable, confidence: float | None = None) -> None:
        self.settings = settings
        self.confidence = settings.campaign.confidence if confidence is None else confidence
        self._held: dict[str, Bounded] = {}

    def of(self, name: str) -> Bounded:
        """Return a quantity by name, such as ``utility_loss`` or ``attacks.pmc.advantage``."""
        if name not in self._held:
            self._held[name] = self._compute(name)
        return self._held[name]

    def keeps(self, name: str, cap: float) -> Bools:
        """Return which settings satisfy a constraint by their bounds; unknown values do not."""
        bound = self.of(name).bound
        with np.errstate(invalid="ignore"):
            return np.asarray(bound >= cap if name in AT_LEAST else bound <= cap)

    def keeping(self, constraints: Mapping[str, float]) -> Bools:
        """Return which settings satisfy all constraints by their bounds."""
        kept = np.ones(len(self.settings.rows), dtype=bool)
        for name, cap in constraints.items():
            kept &= self.keeps(name, cap)
        return kept

    def unknown(self, i: int, name: str) -> str:
        """Return the reason why a quantity of a setting is unknown."""
        record, attack = self.settings.rows[i].record, OF_ATTACK.fullmatch(name)
        if attack is not None:
            again = self.settings.rows[i].again is not None
            return f"{attack['attack']} was not run on it" + (" with fresh seeds" if again else "")
        if name == "cost":
            return f"the cost of {record.cell.defense} was not measured"
        return "no attack was run on it" if name == "leakage" else "there is no undefended model to compare it with"

    def _compute(self, name: str) -> Bounded:
        rows = self.settings.rows
        if name == "cost":
            costs = np.asarray([np.nan if r.record.cost is None else r.record.cost for r in rows], dtype=float)
            return Bounded(costs, costs)
        found = Bounded(np.full(len(rows), np.nan), np.full(len(rows), np.nan))
        attack = OF_ATTACK.fullmatch(name)
        for block in self.settings.blocks:
            if attack is not None:
                self._attack(found, block, attack["attack"], attack["what"])
            else:
                {"utility": self._utility, "utility_loss": self._loss, "leakage": self._leakage}[name](found, block)
        return found

    def _utility(self, found: Bounded, block: SeedBlock) -> None:
        found.value[block.rows] = found.bound[block.rows] = self.settings.known[block.rows, 0]
        if block.certain:
            rows = [variance_over_rows(o) for o in block.outcomes]
            low = block.levels.interval(2 * self.confidence - 1, rows)[0]
            # Further seeds of the undefended model may put the level above the mean, which is what is shown.
            found.bound[block.rows] = np.minimum(low, found.value[block.rows])
        for i, again in self._again(block):
            found.bound[i] = found.value[i] - self._half(again, again.utility_interval)

    def _loss(self, found: Bounded, block: SeedBlock) -> None:
        model = values_of(self.settings.undefended)[: block.utilities.shape[1]]
        if len(model) == block.utilities.shape[1]:
            found.value[block.rows] = found.bound[block.rows] = np.mean(model) - block.utilities.mean(1)
            if block.certain:
                losses = differences_from(model, block.utilities)
                found.bound[block.rows] = losses.mean + t_quantile(self.confidence, losses.df) * losses.se
        for i, again in self._again(block):
            by_search = float(found.bound[i] - found.value[i])
            found.value[i], found.bound[i] = self._loss_again(i, again, by_search, len(model))

    def _loss_again(self, i: int, again: ConfirmedPoint, by_search: float, seeds: int) -> tuple[float, float]:
        """Return a confirmed loss and its bound; NaN without a confirmed undefended model.

        Args:
            i: the setting's place.
            again: its confirmation.
            by_search: how far the search's bound lies from its estimate; NaN where there is none.
            seeds: of the search.
        """
        confirmation = self.settings.rows[i].record.confirmation
        base = confirmation.undefended if confirmation is not None else None
        if base is None or base.utility is None or again.utility is None:
            return np.nan, np.nan
        loss = base.utility - again.utility
        if by_search > 0:
            # How far a seed moves the two apart is what the search has seen; there are other seeds now, and more.
            return loss, loss + by_search * float(np.sqrt(seeds / again.seeds))
        halves = self._half(again, again.utility_interval), self._half(again, base.utility_interval)
        return loss, loss + float(np.hypot(*halves))

    def _leakage(self, found: Bounded, block: SeedBlock) -> None:
        if block.names:
            found.value[block.rows] = found.bound[block.rows] = self.settings.known[block.rows, 1]
            if block.certain:
                found.bound[block.rows] = upper_bounds(block.gains, self.confidence, block.limits)
        for i, again in self._again(block):
            if block.names or again.attacks:
                found.value[i] = value = float(self.settings.known[i, 1])
                found.bound[i] = self._above(again, value, again.leakage_interval, again.leakage_upper_90)

    def _attack(self, found: Bounded, block: SeedBlock, attack: str, what: str) -> None:
        """Bound one attack: by a confirmation where there is one, else by the search."""
        places, names = block.met(attack)
        rows = block.rows[places]
        scores = [block.outcomes[i].attacks[attack] for i in places]
        found.value[rows] = [s.advantage if what == "advantage" else s.mean for s in scores]
        found.bound[rows] = found.value[rows]
        if block.certain and len(places):
            kept = [block.names.index(name) for name in names]
            if what == "advantage":
                limits = block.limits.of(kept, places)
                found.bound[rows] = upper_bounds(block.gains[kept][:, places], self.confidence, limits)
            else:
                found.bound[rows] = upper_bounds(block.successes(places, names), self.confidence)
        for i, again in self._again(block):
            seen = again.attacks.get(attack)
            found.value[i] = found.bound[i] = np.nan
            if seen is not None:
                fresh: ConfirmedNumber = getattr(seen, what)
                found.value[i] = fresh.value
                found.bound[i] = self._above(again, fresh.value, fresh.interval, fresh.upper_90)
        # An attack for which a defense leaves nothing to read finds nothing.
        for i in block.rows.tolist():
            if self.settings.not_fitting(self.settings.rows[i].record.name, attack) is not None:
                found.value[i] = found.bound[i] = 0.0

    def _again(self, block: SeedBlock) -> list[tuple[int, ConfirmedPoint]]:
        places: Ints = block.rows
        return [(i, again) for i in places.tolist() if (again := self.settings.rows[i].again) is not None]

    def _half(self, again: ConfirmedPoint, interval: tuple[float, float] | None) -> float:
        """Return half of a one-sided width from a 90% interval of fresh seeds."""
        if interval is None:
            return 0.0
        one, ninety = t_quantile([self.confidence, 0.95], again.seeds - 1 + PRIOR).tolist()
        return float((interval[1] - interval[0]) / 2 * one / ninety)

    def _above(
        self, again: ConfirmedPoint, value: float, interval: tuple[float, float] | None, upper_90: float | None
    ) -> float:
        """Return the bound between, or beyond, the two that a confirmation says: of 90% and of 95%, one-sided."""
        if interval is None or upper_90 is None:
            return value
        t = t_quantile([self.confidence, 0.9, 0.95], again.seeds - 1 + PRIOR).tolist()
        bound = upper_90 + (interval[1] - upper_90) * (t[0] - t[1]) / (t[2] - t[1])
        return max(value, float(clipped(bound)))

"""Builder of a decision's numbers: one setting, its strongest attack, and the two baselines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.constraints import bounds_leakage, lacking
from tune_vfl.analysis.decision import Choice, Reference, Strongest
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.outcome import strongest_of
from tune_vfl.statistics.arrays import Floats

_BOTH_ENDS = 0.95
"""The one-sided confidence of either end of a 90% interval."""


class Describer:
    """Builder of :class:`Choice` and :class:`Reference` objects for one data set.

    Args:
        joint: all settings on one data set.

    Attributes:
        settings: the same, side by side; ``bounds``: theirs, with the campaign's confidence.
        constraints: the campaign's.
        by_utility: whether they bound the leakage, so that the most useful setting is the best one; else it is the best
            compromise.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint, self.settings = joint, joint.settings
        self.bounds = UpperBounds(joint.settings)
        self.constraints = joint.settings.campaign.constraints
        self.by_utility = bounds_leakage(self.constraints)
        self._ends = UpperBounds(joint.settings, _BOTH_ENDS)

    def setting(self, place: int, constraints: Mapping[str, float] | None = None) -> Choice:
        """Return one setting; with constraints, also those that it misses."""
        point = self.settings.rows[place]
        utility, leakage = self.settings.known[place].tolist()
        again = point.again
        loss, most = (float(column[place]) for column in self._ends.of("utility_loss"))
        return Choice(
            study=point.study,
            dataset=point.dataset,
            defense=point.defense,
            number=point.number,
            params=dict(point.params),
            utility=utility,
            utility_interval=point.intervals[0],
            leakage=leakage,
            leakage_interval=point.intervals[1],
            loss=None if np.isnan(loss) else loss,
            loss_interval=None if np.isnan(loss) or most == loss else (2 * loss - most, most),
            cost=point.record.cost,
            kept=self.kept(place),
            gained=self._gained(place),
            strongest=self.strongest(place),
            confirmed=point.confirmed,
            chance=point.chance if again is None or again.stays is None else again.stays,
            undecided=point.undecided,
            lacks=tuple(lacking(self.bounds, place, constraints or {})),
        )

    def kept(self, place: int) -> float | None:
        """Return the share of the federation's gain that a setting retains; None without a known gain.

        A confirmation does not measure the label party's own model again: there the loss gives the share.
        """
        alone = self.joint.alone
        if alone is None:
            return None
        if self.settings.rows[place].again is None:
            return alone.kept(float(self.settings.known[place, 0]))
        loss = float(self._ends.of("utility_loss").value[place])
        return None if alone.gain_interval[0] <= 0 or np.isnan(loss) else 1 - loss / alone.gain

    def _gained(self, place: int) -> float | None:
        alone = self.joint.alone
        if alone is None:
            return None
        loss = float(self._ends.of("utility_loss").value[place])
        if self.settings.rows[place].again is None or np.isnan(loss):
            return float(self.settings.known[place, 0]) - alone.utility
        return alone.gain - loss

    def strongest(self, place: int) -> Strongest | None:
        """Return the attack with the largest advantage against a setting; None without attacks."""
        row = self.settings.rows[place]
        if row.again is not None and row.again.leakage is not None:
            tuned = row.again.tuned
            if tuned is not None and row.again.leakage != row.again.leakage_untuned:
                return Strongest(tuned.attack, row.again.leakage, row.again.leakage_interval, tuned=True)
            return Strongest(row.again.attack, row.again.leakage, row.again.leakage_interval)
        scores = row.trial.outcome.attackers
        if not scores:
            return None
        name = strongest_of(scores)
        interval = self.settings.advantage_interval(place, name)
        return Strongest(name, scores[name].advantage, interval, scores[name].mean, scores[name].floor)

    def undefended(self, place: int | None = None) -> Reference | None:
        """Return the baseline of the undefended model; None where it was not measured.

        Args:
            place: a setting: one that was confirmed is compared with the undefended model of the same fresh seeds.
        """
        row = None if place is None else self.settings.rows[place]
        if row is not None and row.again is not None and row.record.confirmation is not None:
            fresh = row.record.confirmation.undefended
            if fresh.utility is not None:
                return Reference(fresh.utility, fresh.utility_interval, fresh.leakage, fresh.leakage_interval)
        model = self.joint.undefended
        if model is None:
            return None
        return Reference(model.utility, model.utility_interval, model.leakage, model.leakage_interval)

    def alone(self) -> Reference | None:
        """Return the baseline of the label party's own model; None where it was not measured."""
        known = self.joint.alone
        return None if known is None else Reference(known.utility, known.interval, who=known.who)

    def useful(self) -> Floats:
        """Return ``(N,)`` each setting's utility above that without a federation: the label party alone, or a guess."""
        alone = self.joint.alone
        found = np.asarray(self.settings.known[:, 0] - (self.joint.reference[0] if alone is None else alone.utility))
        for i, row in enumerate(self.settings.rows):
            if row.again is not None and (gained := self._gained(i)) is not None:
                found[i] = gained
        return found

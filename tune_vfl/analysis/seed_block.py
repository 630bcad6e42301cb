"""Blocks of settings with the same seeds and the same undefended model, whose seed effects are estimated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

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
from tune_vfl.statistics import Estimate, Limits, leakage_bounds
from tune_vfl.statistics.arrays import Floats, Ints


@dataclass(frozen=True)
class SeedBlock:
    """Settings with the same seeds and the same undefended model, whose seed effects are estimated together.

    Attributes:
        rows: their places among all settings.
        outcomes: theirs.
        undefended: None where it is not known.
        certain: whether the spread over seeds says anything: there are several.
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

    def advantage_intervals(self, attacker: str) -> list[Interval] | None:
        """Return the settings' 90% intervals of one attacker's advantage; None where seeds give none.

        Args:
            attacker: its attack, with several passive parties ``ATTACK/PARTY``.
        """
        if not self.certain or not self.names:
            return None
        own = [k for k, (a, _) in enumerate(self.names) if a == attacker]
        found = leakage_bounds(self.gains[own], self.limits.of(own, range(len(self.rows))))
        return [(bounds.lower, bounds.upper) for bounds in found]

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


def blocks_of(outcomes: Sequence[Outcome], undefended: Sequence[Outcome | None]) -> list[SeedBlock]:
    """Group settings into blocks; within one campaign it is one block for each built architecture.

    Args:
        outcomes: of the settings, all ok.
        undefended: the undefended model of each; None where it is not known.
    """
    grouped: dict[tuple[int, tuple[float, ...], bool], list[int]] = {}
    for i, (outcome, model) in enumerate(zip(outcomes, undefended, strict=True)):
        kind = len(values_of(outcome)), tuple(values_of(model)), bool(outcome.attacks)
        grouped.setdefault(kind, []).append(i)
    return [
        block_of(outcomes, places, undefended[places[-1]], certain=seeds > 1) for (seeds, *_), places in grouped.items()
    ]


def block_of(
    outcomes: Sequence[Outcome], places: Sequence[int], undefended: Outcome | None, *, certain: bool
) -> SeedBlock:
    """Return the settings at some places as one block; arguments as of :class:`SeedBlock`."""
    return SeedBlock(np.asarray(places, dtype=np.int64), tuple(outcomes[i] for i in places), undefended, certain)

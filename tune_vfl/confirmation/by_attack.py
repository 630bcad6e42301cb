"""Advantage and success of each attack against one setting on fresh seeds, for constraints on single attacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tune_vfl.confirmation.values import FreshBlock, searched
from tune_vfl.evaluation.certainty import Name, one_of
from tune_vfl.outcome import Outcome
from tune_vfl.records.confirmations import ConfirmedAttack, ConfirmedNumber, SeedRecord
from tune_vfl.statistics import Bounds, chosen_attacks, leakage_bounds
from tune_vfl.statistics.arrays import Floats


def attacks_of(
    settings: Sequence[Sequence[SeedRecord]], block: FreshBlock, names: Sequence[Name], row: int, outcome: Outcome
) -> dict[str, ConfirmedAttack]:
    """Return a setting's attacks by name; several passive parties are candidates of one attack.

    Args:
        settings: the records of N settings with the same S seeds.
        block: the same as arrays; the effect of a seed is estimated from all settings with the attack.
        names: those of its K attacks and candidates.
        row: the setting's index.
        outcome: the search's result; its seeds help to choose among candidates if they include the attack.
    """
    found = {}
    for attack in dict.fromkeys(_base(attacker) for attacker, _ in names):
        own = [k for k, (attacker, _) in enumerate(names) if _base(attacker) == attack]
        met = [i for i, records in enumerate(settings) if any(_base(a) == attack for a in records[0].attacks)]
        if row in met:
            x, place = block.advantages[own][:, met], met.index(row)
            success = np.asarray([[_success(settings[i], *names[k]) for i in met] for k in own])
            known = attack in outcome.attacks
            earlier = searched([outcome], [names[k] for k in own]).advantages[:, 0] if known else None
            chosen = chosen_attacks(x[:, place], earlier), np.arange(x.shape[-1])
            found[attack] = ConfirmedAttack(
                advantage=_bounded(x[:, place][chosen], leakage_bounds(x, block.limits.of(own, met))[place]),
                success=_bounded(success[:, place][chosen], leakage_bounds(success)[place]),
            )
    return found


def within(value: float, bounds: Bounds) -> float:
    """Clip a cross-selected number to its interval.

    Where two attacks are close, some seeds choose one and some the other, and the mean over seeds may lie below the
    bound of either.
    """
    return min(max(value, bounds.lower), bounds.upper)


def _bounded(by_seed: Floats, bounds: Bounds) -> ConfirmedNumber:
    value = within(float(by_seed.mean()), bounds)
    return ConfirmedNumber(value=value, interval=(bounds.lower, bounds.upper), upper_90=max(bounds.upper_90, value))


def _base(attacker: str) -> str:
    """Return the attack's name without the passive party's."""
    return attacker.partition("/")[0]


def _success(records: Sequence[SeedRecord], attacker: str, candidate: str) -> list[float]:
    """Return a candidate's success by seed; if the setting lacks it, another one's of the same attack."""
    found = []
    for record in records:
        alike = [a for a in record.attacks if _base(a) == _base(attacker)]
        seen = record.attacks[attacker if attacker in record.attacks else alike[0]]
        found.append(one_of(seen.candidates, candidate))
    return found

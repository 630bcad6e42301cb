"""Arrays from outcomes and records: utilities ``(N, S)`` and signed advantages ``(K, N, S)``.

Each candidate of an attack, and each passive party with its own floor, is one of the K attacks of a block: the
statistics choose among them, on other seeds than the scored ones. If defenses differ in their attacks,
:func:`tune_vfl.evaluation.certainty.stood_in` fills the missing values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tune_vfl.evaluation import certainty
from tune_vfl.evaluation.certainty import Name, advantages_of, limits_of, limits_over, one_of, stood_in
from tune_vfl.outcome import UNTRAINED, AttackScore, Outcome
from tune_vfl.records.confirmations import SeedRecord
from tune_vfl.statistics import Limits, advantage, chosen_floor
from tune_vfl.statistics.advantages import GUESS
from tune_vfl.statistics.arrays import Floats


class FreshBlock(NamedTuple):
    """Utilities and advantages of N settings on the same S seeds.

    Attributes:
        utility: ``(N, S)``.
        advantages: ``(K, N, S)`` signed, by :func:`names_of`.
        limits: the limits of the advantages' bounds.
    """

    utility: Floats
    advantages: Floats
    limits: Limits


def names_of(outcomes: Iterable[Outcome], records: Iterable[SeedRecord] = ()) -> list[Name]:
    """Return all attacks with their candidates, in order of appearance."""
    found = dict.fromkeys(certainty.names_of(outcomes))
    for record in records:
        found.update({(a, c): None for a, seen in record.attacks.items() for c in seen.candidates})
    return list(found)


def searched(outcomes: Sequence[Outcome], names: Sequence[Name]) -> FreshBlock:
    """Return the block of a search's outcomes, on the search's seeds.

    Args:
        outcomes: ok ones.
        names: from :func:`names_of`.
    """
    utility = [o.utility.values if o.utility else [] for o in outcomes]
    return FreshBlock(np.asarray(utility, dtype=np.float64), advantages_of(outcomes, names), limits_of(outcomes, names))


def fresh(points: Sequence[Sequence[SeedRecord]], names: Sequence[Name]) -> FreshBlock:
    """Return the block of N settings, each with ok records of the same S fresh seeds.

    An attack's floor is chosen once for these seeds, by the means.
    """
    utility = np.asarray([[r.utility for r in records] for records in points], dtype=np.float64)
    met = np.asarray([[a in records[0].attacks for records in points] for a, _ in names])
    gains, limits = np.full((len(names), *utility.shape), np.nan), Limits.none(*met.shape)
    for k, i in np.argwhere(met).tolist():
        gains[k, i], (limits.noise[k, i], limits.narrow[k, i]) = _fresh(points[i], *names[k])
    return FreshBlock(utility, stood_in(gains, met), limits)


def _fresh(records: Sequence[SeedRecord], attack: str, candidate: str) -> tuple[Floats, tuple[float, bool]]:
    """Return advantages by seed, and the limits of their bounds."""
    seen = [r.attacks[attack] for r in records]
    held = [r.without_messages(attack) for r in records]
    without = {way: [of[way] for of in held] for way in held[0] if all(way in of for of in held)}
    floors = chosen_floor([s.guess for s in seen], without).by_seed
    noise = [s.noise for s in seen if s.noise is not None]
    gain = advantage([one_of(s.candidates, candidate) for s in seen], floors)
    return gain.by_seed, limits_over(floors.tolist(), noise if len(noise) == len(seen) else [])


def steady(record: SeedRecord, outcome: Outcome, names: Sequence[Name]) -> list[float]:
    """Return one seed's advantages ``(K,)`` by the search's floor and headroom.

    Unlike those of :func:`fresh` they do not change with more seeds, as a contest's plan requires.

    Args:
        record: the seed's ok record.
        outcome: the same setting's in the search.
        names: from :func:`names_of`.
    """
    scores = outcome.attackers
    met = np.asarray([[a in scores] for a, _ in names])
    gains = [_steady_gain(record, scores[a], a, c) if a in scores else np.nan for a, c in names]
    return stood_in(np.asarray(gains)[:, None, None], met).ravel().tolist()


def _steady_gain(record: SeedRecord, score: AttackScore, attack: str, candidate: str) -> float:
    seen = record.attacks[attack]
    # A search of an earlier measure does not say what its floor was: its own untrained model's, or the guess.
    higher = score.r_lower is not None and score.r_lower > score.guess
    way = score.floor_by or (f"{attack.partition('/')[0]} {UNTRAINED}" if higher else GUESS)
    floor = record.without_messages(attack).get(way, seen.guess)
    headroom = 1 - score.floor
    return (one_of(seen.candidates, candidate) - floor) / headroom if headroom > 0 else 0.0

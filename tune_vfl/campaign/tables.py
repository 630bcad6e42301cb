"""Tables of a campaign on one data set: defenses below a leakage, attacks by defense, failures."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.campaign.joint import JointPoint
    from tune_vfl.evaluation.certainty import Interval
    from tune_vfl.ledger.records import StudyRecord

CAPS = (0.1, 0.2, 0.5)
"""The leakages below which defenses are ranked."""

_NUMBER = re.compile(r"-?\d[\d.,]*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Rank:
    """A defense below a cap of leakage.

    Attributes:
        defense: its name.
        point: its most useful setting whose leakage is below the cap with the campaign's confidence; None without one.
        utility, utility_interval, leakage_upper: of it; the last is the one-sided bound by which it is below the cap.
        best: the chance that no other defense's setting here is more useful.
        least: where there is no such setting, the least bound that one of its settings has.
    """

    defense: str
    point: JointPoint | None = None
    utility: float | None = None
    utility_interval: Interval | None = None
    leakage_upper: float | None = None
    best: float = 0.0
    least: float | None = None


@dataclass(frozen=True)
class Ranking:
    """All defenses below one cap of leakage: those with a setting by falling utility, then the others."""

    cap: float
    rows: tuple[Rank, ...]


@dataclass(frozen=True)
class Met:
    """One attack on one defense, at that defense's best setting.

    Attributes:
        advantage: in [0, 1]; ``interval``: of 90%, None from one seed.
        worst: whether it is the attack that finds most there.
        share: in how many of the defense's settings it finds most, of all that were measured.
        weak: it found less than on a model that was never trained: it says nothing about the defense.
    """

    advantage: float
    interval: Interval | None
    worst: bool
    share: float
    weak: bool


@dataclass(frozen=True)
class AttackTable:
    """What every attack finds in every defense's best setting.

    Attributes:
        attacks: the columns, in the order of the campaign; ``defenses``: the rows.
        points: the best setting of each defense that has one.
        cells: by defense and attack; one that was not run on a defense is missing.
    """

    attacks: tuple[str, ...]
    defenses: tuple[str, ...]
    points: dict[str, JointPoint]
    cells: dict[tuple[str, str], Met]


@dataclass(frozen=True)
class Failure:
    """Trials that ended without a result, for one reason.

    Attributes:
        outcome: ``diverged``, ``oom``, ...; ``reason``: its first line.
        count: how many; ``where``: how many by study.
    """

    outcome: str
    reason: str
    count: int
    where: dict[str, int]


def failures(parts: Sequence[StudyRecord]) -> tuple[Failure, ...]:
    """Group the trials that came to nothing by outcome and reason, the most frequent first; preempted ones are no end.

    Numbers in a reason differ from trial to trial and do not part a group: the first reason stands for it.
    """
    found: dict[tuple[str, str], Counter[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for part in parts:
        for trial in part.counted:
            if (outcome := trial.outcome.outcome) != "ok":
                reason = (trial.outcome.reason.splitlines() or [""])[0]
                key = (outcome, _NUMBER.sub("#", reason))
                found.setdefault(key, Counter())[part.name] += 1
                first.setdefault(key, reason)
    groups = [Failure(key[0], first[key], where.total(), dict(where)) for key, where in found.items()]
    return tuple(sorted(groups, key=lambda f: (-f.count, f.outcome, f.reason)))

"""Tables of a campaign on one data set: defenses ranked below a cap of leakage, attacks by defense, failed trials."""

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
        point: its most useful setting with a leakage below the cap by the campaign's confidence; None without one.
        utility, utility_interval, leakage_upper: that setting's; the last is its one-sided bound, below the cap.
        best: the chance that no other defense's setting here is more useful.
        least: without such a setting, the lowest bound of the defense's settings.
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
        worst: whether it has the largest advantage of all attacks there.
        share: the share of the defense's measured settings in which it has the largest advantage.
        weak: whether it did worse than on an untrained model: it then tells nothing about the defense.
    """

    advantage: float
    interval: Interval | None
    worst: bool
    share: float
    weak: bool


@dataclass(frozen=True)
class AttackTable:
    """The advantage of every attack against every defense's best setting.

    Attributes:
        attacks: the columns, in the order of the campaign; ``defenses``: the rows.
        points: the best setting of each defense that has one.
        cells: by defense and attack; an attack that was not run on a defense has none.
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
    """Group the failed trials by outcome and reason, the most frequent first; preempted ones do not count.

    Reasons that differ in their numbers alone are one group, shown by its first reason.
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

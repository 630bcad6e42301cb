"""Tables of a campaign on one data set that need no statistics: why trials came to nothing, and what was retired."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.records import StudyRecord

_NUMBER = re.compile(r"-?\d[\d.,]*(?:e[-+]?\d+)?")


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


@dataclass(frozen=True)
class Retired:
    """A study that gets no more trials.

    Attributes:
        study, defense: which; ``why``: a sentence.
        trials: how many it had finished.
    """

    study: str
    defense: str
    why: str
    trials: int


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


def retired(campaign: CampaignRecord, dataset: str | None = None) -> tuple[Retired, ...]:
    """Return the studies that get no more trials, in the order of the campaign; of one data set, or of all."""
    parts = campaign.studies if dataset is None else campaign.on(dataset).studies
    return tuple(
        Retired(part.name, part.cell.defense, campaign.retired[part.name], len(part.counted))
        for part in parts
        if part.name in campaign.retired
    )

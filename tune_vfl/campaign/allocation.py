"""Where the trials of a campaign go: to all studies of a data set alike, or to those that can still change the answer.

An allocator looks at all studies of one data set and says which one asks the next pack. It holds no state: asked again
about the same trials it gives the same answer, so a search that is resumed goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tune_vfl.campaign.gains import Shown, on_the_front, to_the_answer
from tune_vfl.campaign.shares import filled
from tune_vfl.evaluation.certainty import advantages_of, names_of
from tune_vfl.statistics.intervals import FEWEST_SETTINGS, shrink

if TYPE_CHECKING:
    from tune_vfl.campaign.gains import Prospect
    from tune_vfl.outcome import Outcome
    from tune_vfl.statistics.arrays import Floats

CHANCE = 0.03
"""A study is retired when none of its settings has a larger chance."""

FIRST = 3
"""So many trials are seen of every study before it is judged, published settings among them, unless it has fewer."""


@dataclass(frozen=True, eq=False)
class PartState:
    """Where one study of a campaign stands.

    Attributes:
        name: the study's; ``defense``: its defense's, for sentences.
        due: how many trials it must ask before any other: published settings, and lost trials that are asked again.
        objectives: ``(n, 2)`` utility and leakage of its finished trials with objectives.
        utility: ``(n, S)`` by seed; ``leakage``: ``(n, S)`` advantages of each trial's worst attack, signed.
        failed: finished trials without objectives.
        flying: trials that have been asked and have not come back.
        left: how many more it can ask until its space is used up, those that are due included; infinite for most.
        pack: how many trials a pack of it holds.
        misses: ``(n,)`` by how much each trial misses the constraint that it misses most, 0 or less where it keeps all
            of them; finite, in any unit, the same for all studies. None without constraints.
    """

    name: str
    defense: str
    due: int
    objectives: Floats
    utility: Floats
    leakage: Floats
    failed: int = 0
    flying: int = 0
    left: float = float("inf")
    pack: int = 1
    misses: Floats | None = None

    @classmethod
    def of(cls, name: str, defense: str, ok: Sequence[Outcome], **rest: Any) -> PartState:
        """Return the state of a study with these ok outcomes; ``rest`` are the other fields."""
        seeds = len(ok[0].utility.values) if ok and ok[0].utility else 1
        utility = np.asarray([o.utility.values if o.utility else [] for o in ok], dtype=np.float64)
        gains = advantages_of(ok, names_of(ok)) if ok else np.empty((0, 0, seeds))
        worst = gains[gains.mean(-1).argmax(0), np.arange(len(ok))] if len(gains) else np.zeros((len(ok), seeds))
        objectives = np.asarray([o.objectives for o in ok], dtype=np.float64).reshape(-1, 2)
        return cls(name, defense, objectives=objectives, utility=utility.reshape(-1, seeds), leakage=worst, **rest)

    @property
    def finished(self) -> int:
        """How many of its trials have ended."""
        return len(self.objectives) + self.failed

    @property
    def asked(self) -> int:
        """How many of its trials count by now, those that fly included."""
        return self.finished + self.flying


class Allocation(NamedTuple):
    """What happens next on a data set.

    Attributes:
        part: the study that asks the next pack; None: nobody until more of what flies has come back, or nobody at all.
        trials: how many it asks.
        retired: why no trials go to a study for now, by its name; None while too little is known to judge any.
    """

    part: str | None
    trials: int
    retired: dict[str, str] | None


Allocator = Callable[[Sequence[PartState], int, tuple[float, float]], Allocation]
"""Answers who is next, from the studies of one data set in the order of the spec, how many trials are still to be asked
of all of them together, and ``(utility, leakage)`` of the worst point that counts for the hypervolume."""


def even(parts: Sequence[PartState], owed: int, reference: tuple[float, float]) -> Allocation:
    """Give every study its published settings, then all as many trials; an :data:`Allocator`."""
    due = _due(parts, owed)
    if due is not None:
        return due
    had = [p.asked for p in parts]
    goals = filled(had, [p.asked + p.left for p in parts], sum(had) + owed)
    wanting = [(goal - p.asked, p) for p, goal in zip(parts, goals, strict=True) if goal > p.asked]
    if not wanting:
        return Allocation(None, 0, {})
    count, part = max(wanting, key=lambda w: w[0])
    return Allocation(part.name, min(count, part.pack), {})


def race(parts: Sequence[PartState], owed: int, reference: tuple[float, float], *, seed: int = 0) -> Allocation:
    """Give every study its published settings, then full packs to the one that promises most; an :data:`Allocator`.

    What a study's next trial brings is judged by :mod:`tune_vfl.campaign.gains`; packs that fly share it. A study
    with few published settings first gets :data:`FIRST` trials to be judged by. One of which nothing is likely to be on
    the joint front, or under constraints to be the answer, is retired, and comes back as soon as that changes. Trials
    go to retired studies only when no other one has any left to ask.
    """
    due = _due(parts, owed)
    if due is not None:
        return due
    room = [p for p in parts if p.left > 0]
    unseen = next((p for p in room if p.asked < FIRST), None)
    if unseen is not None and owed > 0:
        return Allocation(unseen.name, int(min(FIRST - unseen.asked, unseen.left, unseen.pack, owed)), None)
    seen = [p for p in parts if len(p.objectives)]
    prospects = _prospects(seen, reference, seed)
    retired = {p.name: why for p in parts if (why := _retired(p, seen, prospects))}
    able = [p for p in room if p.finished >= FIRST or not p.flying]
    racing = [p for p in able if p.name not in retired] or ([] if any(p.flying for p in parts) else able)
    if not racing or owed <= 0:
        return Allocation(None, 0, retired)

    def promise(part: PartState) -> tuple[float, int]:
        # A trial without a result brings nothing.
        gain = prospects[part.name].gain * len(part.objectives) / part.finished if part.name in prospects else 0.0
        return gain / (1 + part.flying / part.pack), -part.asked

    chosen = max(racing, key=promise)
    return Allocation(chosen.name, int(min(chosen.pack, chosen.left, owed)), retired)


ALLOCATORS: dict[str, Allocator] = {"even": even, "race": race}
"""By the name that a spec's ``allocation`` gives."""


def _due(parts: Sequence[PartState], owed: int) -> Allocation | None:
    """Return who asks what must be asked; None when nothing must."""
    part = next((p for p in parts if p.due > 0), None)
    if part is None or owed <= 0:
        return None
    return Allocation(part.name, min(part.due, part.pack, owed), None)


def _prospects(seen: Sequence[PartState], reference: tuple[float, float], seed: int) -> dict[str, Prospect]:
    """Return what may come of each study that has shown something; rivals are places in ``seen``."""
    if not seen:
        return {}
    study = np.repeat(np.arange(len(seen)), [len(p.objectives) for p in seen])
    utility, leakage = np.concatenate([p.utility for p in seen]), np.concatenate([p.leakage for p in seen])
    points, variance = np.concatenate([p.objectives for p in seen]), np.zeros((len(study), 2))
    if utility.shape[1] > 1:
        variance = np.column_stack([_variances(utility), _variances(leakage)]) / utility.shape[1]
    misses = [p.misses for p in seen if p.misses is not None]
    if len(misses) == len(seen):
        points = np.column_stack([points[:, 0], np.concatenate(misses)])
        found = to_the_answer(Shown(points, variance, study), seed)
    else:
        found = on_the_front(Shown(points, variance, study), reference, seed)
    return {p.name: prospect for p, prospect in zip(seen, found, strict=True)}


def _variances(block: Floats) -> Floats:
    """Return each setting's variance over seeds, that of seeds for all alike taken out where it can be."""
    return shrink(block).own if len(block) >= FEWEST_SETTINGS else np.asarray(block.var(1, ddof=1))


def _retired(part: PartState, seen: Sequence[PartState], prospects: dict[str, Prospect]) -> str:
    """Return why a study is retired, or nothing; its rivals are places in ``seen``."""
    if part.finished < FIRST and (part.left > 0 or part.flying or not part.finished):
        return ""
    prospect = prospects.get(part.name)
    if prospect is None:
        return f"none of its {part.finished} trials came to a result"
    if prospect.chance >= CHANCE:
        return ""
    rivals = [seen[k].defense for k in prospect.rivals]
    names = rivals[0] if len(rivals) == 1 else f"{', '.join(rivals[:-1])} and {rivals[-1]}"
    if part.misses is None:
        end = f"the chance that one of its settings is on the front is under {CHANCE:.0%}"
        return f"dominated at every leakage by {names}; {end}"
    end = f"the chance that one of its settings becomes the answer is under {CHANCE:.0%}"
    return f"behind {names} under the constraints; {end}"

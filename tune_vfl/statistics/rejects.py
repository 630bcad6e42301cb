"""Successive rejects: allocate more seeds to the points of a front that are hardest to tell apart.

Every point starts with a few fresh seeds. After each phase those are settled whose place, on the front or off it, is
clearest; the others, each with its strongest challenger, go on to the next total. The plan holds no state: it replays
all earlier phases on the seeds that they had, so that an interrupted confirmation comes to the same decisions.
After Audibert and Bubeck, "Best arm identification in multi-armed bandits" (2010), with a front in place of one arm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import Bools, Floats, Ints
from tune_vfl.statistics.fronts import Tolerances, dominance, leakage_differences, membership
from tune_vfl.statistics.intervals import differences

SHARES = (4, 8, 12, 20)
"""Seeds after each phase, in tenths of the requested seeds."""

THIRD = 3
"""After a phase a third of all points is settled, rounded down: what is left over goes on to the last total."""

FEWEST_SEEDS = 2
"""One seed has no spread."""


class Plan(NamedTuple):
    """The next runs, and the decisions so far.

    Attributes:
        wanted: ``(P,)`` how many seeds each point should have had, in their order; nothing more to run for a point
            that has them.
        settled: ``(P,)`` bool: decided.
        kept: ``(P,)`` bool: decided, and on the front.
        member: ``(P,)`` the latest chance of each point to be on the front; NaN before the first phase is over, and
            for points that were lost.
        phase: how many phases are over.
        done: whether nothing is left to run: all points are settled, and those on the front have the requested seeds.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import Plan, plan
        >>> nothing_yet = np.empty((2, 0))  # two points, no seed
        >>> first = plan(nothing_yet, nothing_yet[None], seeds=10)
        >>> first.wanted.tolist(), first.done
        ([4, 4], False)
    """

    wanted: Ints
    settled: Bools
    kept: Bools
    member: Floats
    phase: int
    done: bool


def totals(seeds: int) -> list[int]:
    """Return the phases' numbers of seeds for ``--seeds``, rising: 4, 8, 12 and 20 for 10; never below 2.

    Raises:
        UsageError: for fewer than 1.

    Example:
        >>> from tune_vfl.statistics import totals
        >>> totals(10)
        [4, 8, 12, 20]
    """
    if seeds < 1:
        raise UsageError(f"a confirmation needs at least 1 seed, got {seeds}")
    return sorted({max(FEWEST_SEEDS, -(-share * seeds // 10)) for share in SHARES})


def plan(utility: ArrayLike, advantages: ArrayLike, seeds: int = 10, lost: ArrayLike | None = None) -> Plan:
    """Plan the next runs from the values so far.

    Args:
        utility: ``(P, T)`` of P points on T fresh seeds, the same ones in the same order for all; NaN where not run.
        advantages: ``(K, P, T)`` signed, NaN where not run. A value must not change when more seeds arrive: take
            ``(success - floor) / headroom`` with the headroom of the search.
        seeds: how many common seeds every kept point is to have in the end.
        lost: ``(P,)`` bool, points of which no more seeds will come because one failed; they are settled as not kept
            as soon as they lack a seed. None: no point is.

    Returns:
        A :class:`Plan`; asking again with the same values gives the same one.

    Raises:
        ShapeError: for shapes that do not fit.
        UsageError: for infinite values, or fewer than 1 seed.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import plan
        >>> nothing_yet = np.empty((2, 0))  # two points, no seed
        >>> plan(nothing_yet, nothing_yet[None], seeds=10).wanted.tolist()
        [4, 4]
    """
    u, x, gone = _values(utility, advantages, lost)
    has = _run_so_far(u, x)
    state = _ReplayState(np.zeros(len(u), dtype=np.int64), len(u))
    for total in totals(seeds):
        if not state.open.any():
            break
        state.ask(total)
        if state.waits(has, gone):
            return state.plan(done=False)
        state.compare(u, x)
        state.settle(len(u) if total == totals(seeds)[-1] else max(1, len(u) // THIRD))
    state.goal[state.kept] = np.maximum(state.goal[state.kept], seeds)
    waits = state.waits(has, gone)
    return state.plan(done=not waits)


class _ReplayState:
    """The state of the replay after some phases."""

    def __init__(self, goal: Ints, points: int) -> None:
        self.goal = goal
        self.open = np.ones(points, dtype=bool)
        self.kept = np.zeros(points, dtype=bool)
        self.there = np.ones(points, dtype=bool)
        self.member = np.full(points, np.nan)
        self.rival = np.full(points, -1)
        self.phase = 0

    def ask(self, total: int) -> None:
        """Raise the goals of open points, and of each one's strongest challenger."""
        rivals = self.rival[self.open]
        self.goal[self.open] = total
        self.goal[rivals[rivals >= 0]] = total

    def waits(self, has: Ints, gone: Bools) -> bool:
        """Whether seeds are pending; points whose seeds will never come are settled as rejected."""
        lacking = self.there & (has < self.goal)
        fell = lacking & gone
        self.there &= ~fell
        self.open &= ~fell
        self.kept &= ~fell
        self.member[fell] = np.nan
        return bool((lacking & ~gone).any())

    def compare(self, u: Floats, x: Floats) -> None:
        """Compare all pairs on the seeds that both have so far."""
        chances = np.zeros((len(u), len(u)))
        for common in np.unique(self.goal[self.there]):
            rows = np.flatnonzero(self.there & (self.goal >= common))
            found = dominance(
                differences(u[rows, :common]), leakage_differences(x[:, rows, :common]), Tolerances().halved()
            )
            pairs = np.minimum.outer(self.goal[rows], self.goal[rows]) == common
            chances[np.ix_(rows, rows)] = np.where(pairs, found, chances[np.ix_(rows, rows)])
        if self.there.any():
            self.member[self.there] = membership(chances)[self.there]
        chances[:, ~self.there] = -1.0
        np.fill_diagonal(chances, -1.0)
        self.rival = np.where(chances.max(1, initial=-1.0) >= 0, chances.argmax(1), -1)

    def settle(self, count: int) -> None:
        """Decide the ``count`` open points whose chance is farthest from one half."""
        points = np.flatnonzero(self.open)
        clearest = points[np.argsort(-np.abs(self.member[points] - 0.5), kind="stable")][:count]
        self.open[clearest] = False
        self.kept[clearest] = self.member[clearest] >= 0.5
        self.phase += 1

    def plan(self, *, done: bool) -> Plan:
        return Plan(self.goal, ~self.open, self.kept, self.member, self.phase, done)


def _values(utility: ArrayLike, advantages: ArrayLike, lost: ArrayLike | None) -> tuple[Floats, Floats, Bools]:
    u, x = np.asarray(utility, dtype=np.float64), np.asarray(advantages, dtype=np.float64)
    if u.ndim != 2 or x.ndim != 3 or not len(u) or not len(x) or x.shape[1:] != u.shape:
        raise ShapeError(
            "expected utility (points, seeds) and advantages (attacks, points, seeds), none of them empty, "
            f"got {u.shape} and {x.shape}"
        )
    if np.isinf(u).any() or np.isinf(x).any():
        raise UsageError("values: infinite; NaN says that a seed has not been run")
    gone = np.zeros(len(u), dtype=bool) if lost is None else np.asarray(lost, dtype=bool)
    if gone.shape != (len(u),):
        raise ShapeError(f"lost: one for each of {len(u)} points, got shape {gone.shape}")
    return u, x, gone


def _run_so_far(u: Floats, x: Floats) -> Ints:
    """Return each point's number of seeds without a gap; seeds after a gap wait until it is closed."""
    whole = np.isfinite(u) & np.isfinite(x).all(0)
    return np.asarray(np.cumprod(whole, axis=1).sum(1), dtype=np.int64)

"""What one more trial of a study may bring its campaign, judged by the settings that the study has shown so far.

The next setting of a study is thought to be one of its settings so far, moved by a fraction of their own spread. What
it may bring is then a mean over such draws: of the joint hypervolume that it adds, or of the answer that it betters.

Points are rows ``(utility, leakage)``, a study's ``(n, 2)``. Where constraints decide, the second number is how much a
setting misses them by, 0 or less where it keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tune_vfl.metrics import pareto
from tune_vfl.statistics.fronts import TOLERANCES
from tune_vfl.statistics.intervals import PRIOR
from tune_vfl.statistics.laws import normal_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.statistics.arrays import Floats, Ints

MOVED = 0.25
"""By what share of its study's spread a setting is moved; less with more settings, as a density's kernel is."""

DRAWS = 16
"""For each setting."""


class Prospect(NamedTuple):
    """What may still come of one study.

    Attributes:
        gain: what its next trial brings on average, in hypervolume; of utility where constraints decide.
        chance: the largest chance of one of its settings, tried or next, to be on the joint front, or the answer.
        rivals: which studies hold the settings that keep its own from there, the one that does so most often first.
    """

    gain: float
    chance: float
    rivals: tuple[int, ...]


class Shown(NamedTuple):
    """What all studies of a data set have shown.

    Attributes:
        points: ``(N, 2)``; ``variance``: ``(N, 2)`` of these means over seeds, 0 where unknown.
        study: ``(N,)`` whose each one is.
    """

    points: Floats
    variance: Floats
    study: Ints

    def of(self, study: int) -> Ints:
        """Return the rows of one study."""
        return np.flatnonzero(self.study == study)


def draws(shown: Shown, seed: int) -> list[Floats]:
    """Return what the studies' next settings may be, ``(n, DRAWS, 2)`` for each study.

    A study's spread is drawn toward what is usual for all of them, as two settings' worth of prior would draw it.
    """
    count = int(shown.study.max()) + 1
    parts = [shown.points[shown.of(k)] for k in range(count)]
    centered = [p - p.mean(0) for p in parts if len(p)]
    squares = [p.T @ p for p in centered]
    usual = sum(squares) / max(1, sum(len(p) - 1 for p in centered))
    normal = np.random.default_rng(seed).normal(size=(DRAWS, 2))
    found = []
    for part in parts:
        n = len(part)
        own = (part - part.mean(0)) if n else part
        spread = (own.T @ own + PRIOR * usual) / (max(n - 1, 0) + PRIOR) + np.diag(np.square(TOLERANCES)) / 4
        moves = normal @ np.linalg.cholesky(spread).T * MOVED * max(n, 1) ** (-1 / 6)
        found.append(part[:, None, :] + moves)
    return found


def on_the_front(shown: Shown, reference: Sequence[float], seed: int = 0) -> list[Prospect]:
    """Return what each study may bring the joint front; a setting of the front counts as what it added to it."""
    ranks = pareto.ranks(shown.points)
    front = np.flatnonzero(ranks == 0)
    # Without one of its settings the front is made of its others and of those that nothing else dominates.
    near = np.flatnonzero(ranks <= 1)
    found = []
    for k, moved in enumerate(draws(shown, seed)):
        rows, points = shown.of(k), np.maximum(moved, [-np.inf, 0.0])  # no leakage is below none
        behind = ranks[rows] > 0
        total = hypervolume_gains(shown.points[front], points[behind].reshape(-1, 2), reference).sum()
        for row, some in zip(rows[~behind].tolist(), points[~behind], strict=True):
            total += hypervolume_gains(shown.points[near[near != row]], some, reference).sum()
        beaten = _beaten(shown, front, rows, shown.points[rows])
        later = _beaten(shown, front, np.repeat(rows, DRAWS), points.reshape(-1, 2))
        chance = max(float((1 - beaten.max(1)).max()), float((1 - later.max(1)).mean()))
        gain = float(total) / DRAWS / (len(rows) + 1)
        found.append(Prospect(gain, chance, _often(shown.study[front[beaten.argmax(1)]])))
    return found


def to_the_answer(shown: Shown, seed: int = 0) -> list[Prospect]:
    """Return what each study may bring the answer: utility above its own, else what the nearest one misses by."""
    keeps = shown.points[:, 1] <= 0
    best = int(np.where(keeps, shown.points[:, 0], -np.inf).argmax() if keeps.any() else shown.points[:, 1].argmin())
    found = []
    for k, moved in enumerate(draws(shown, seed)):
        rows, points = shown.of(k), moved.reshape(-1, 2)
        if keeps.any():
            gained = np.where(points[:, 1] <= 0, np.maximum(0.0, points[:, 0] - shown.points[best, 0]), 0.0)
            tried = _higher(shown, best, rows, shown.points[rows]) * keeps[rows]
            later = _higher(shown, best, np.repeat(rows, DRAWS), points) * (points[:, 1] <= 0)
        else:
            gained = np.maximum(0.0, shown.points[best, 1] - np.maximum(points[:, 1], 0.0))
            tried, later = np.zeros(len(rows)), (gained > 0).astype(float)
        chance = 1.0 if best in rows else max(float(tried.max()), float(later.mean()))
        rival = int(shown.study[best])
        found.append(Prospect(float(gained.mean()) * len(rows) / (len(rows) + 1), chance, (rival,)))
    return found


def hypervolume_gains(points: Floats, added: Floats, reference: Sequence[float]) -> Floats:
    """Return how much each of ``added`` alone would add to the hypervolume of ``points``.

    Args:
        points: ``(n, 2)``, dominated ones included.
        added: ``(m, 2)``.
        reference: ``(utility, leakage)`` of the worst point that counts.

    Returns:
        ``(m,)``, 0 for what is dominated.
    """
    counted = points[(points[:, 0] > reference[0]) & (points[:, 1] < reference[1])]
    front = np.unique(counted[pareto.front(counted)], axis=0)  # by rising utility, and so by rising leakage
    ends = np.concatenate([[reference[0]], front[:, 0], [np.inf]])
    heights = np.concatenate([front[:, 1], [reference[1]]])  # the leakage that is to be undercut up to each end
    widths = np.clip(np.minimum(added[:, :1], ends[1:]) - ends[:-1], 0.0, None)
    return np.asarray((widths * np.clip(heights - added[:, 1:], 0.0, None)).sum(1))


def _beaten(shown: Shown, front: Ints, rows: Ints, points: Floats) -> Floats:
    """Return the chance that settings of the front beat ``points`` ``(m, 2)`` in both, by more than the tolerances.

    As :func:`tune_vfl.statistics.fronts.dominance`, against the front alone. ``rows`` say whose variance the points
    have; none is beaten by itself.
    """
    gaps = (shown.points[front] - points[:, None, :]) * [1.0, -1.0] - np.asarray(TOLERANCES)
    se = np.sqrt(shown.variance[front] + shown.variance[rows][:, None, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = normal_below(np.where(se > 0, gaps / se, np.copysign(np.inf, gaps))).prod(-1)
    itself = (front == rows[:, None]) & (points == shown.points[rows]).all(1)[:, None]
    return np.where(itself, 0.0, chances)


def _higher(shown: Shown, best: int, rows: Ints, points: Floats) -> Floats:
    """Return the chance that ``points`` ``(m, 2)`` truly have more utility than the answer has."""
    gap, se = points[:, 0] - shown.points[best, 0], np.sqrt(shown.variance[best, 0] + shown.variance[rows, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        return normal_below(np.where(se > 0, gap / se, np.copysign(np.inf, gap)))


def _often(studies: Ints) -> tuple[int, ...]:
    """Return the different ones, the one that occurs most often first."""
    which, counts = np.unique(studies, return_counts=True)
    return tuple(which[np.argsort(-counts, kind="stable")].tolist())

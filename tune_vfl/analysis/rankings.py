"""Rankings of the defenses on a data set: by their most useful setting below a cap of leakage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tune_vfl.analysis.constraints import RUNGS
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.setting import Setting
from tune_vfl.evaluation.certainty import Interval
from tune_vfl.statistics.laws import normal_below


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
    point: Setting | None = None
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


def rankings(joint: Joint, caps: Sequence[float] = RUNGS) -> tuple[Ranking, ...]:
    """Rank the defenses below each cap by their most useful setting whose leakage bound is below it."""
    describer = Describer(joint)
    return tuple(_ranking(describer, cap) for cap in caps)


def _ranking(describer: Describer, cap: float) -> Ranking:
    joint, settings, bound = describer.joint, describer.settings, describer.bounds.of("leakage").bound
    utility = settings.known[:, 0]
    best: dict[str, int] = {}
    rows = []
    for defense in joint.defenses:
        here = [i for i, p in enumerate(joint.points) if p.defense == defense and not np.isnan(bound[i])]
        below = [i for i in here if bound[i] <= cap]
        if below:
            best[defense] = min(below, key=lambda i: (-utility[i], bound[i], i))
        else:
            rows.append(Rank(defense, least=min((float(bound[i]) for i in here), default=None)))
    variances = [0.0 if settings.own is None else float(settings.own[0].variance[i]) for i in best.values()]
    chances = chances_to_be_best([float(utility[i]) for i in best.values()], variances)
    ranked = []
    for (defense, i), chance in zip(best.items(), chances, strict=True):
        point = joint.points[i]
        ranked.append(Rank(defense, point, float(utility[i]), point.intervals[0], float(bound[i]), chance))
    ranked.sort(key=lambda r: (-(r.utility or 0.0), r.defense))
    rows.sort(key=lambda r: (r.least is None, r.least, r.defense))
    return Ranking(cap, (*ranked, *rows))


def chances_to_be_best(means: Sequence[float], variances: Sequence[float]) -> list[float]:
    """Return the chance of each of several independent normal numbers to be the largest; equal certain ones share it.

    Args:
        means: the estimates.
        variances: of the estimates, without effects common to all.

    Returns:
        Chances that sum to 1; none for no numbers.
    """
    if not len(means):
        return []
    m, spread = np.asarray(means), np.sqrt(np.asarray(variances, dtype=np.float64))
    top = float(spread.max())
    if top == 0:
        first = m == m.max()
        return [float(share) for share in first / first.sum()]
    spread = np.maximum(spread, 1e-3 * top)  # a certain number is a narrow one, so that one grid serves all
    grid = np.unique(np.concatenate([mean + s * np.linspace(-6, 6, 601) for mean, s in zip(m, spread, strict=True)]))
    below = normal_below((grid - m[:, None]) / spread[:, None])
    steps, middle = np.diff(below, axis=1), (below[:, 1:] + below[:, :-1]) / 2
    found = np.asarray([(steps[i] * np.delete(middle, i, 0).prod(0)).sum() for i in range(len(m))])
    return [float(chance) for chance in found / found.sum()]

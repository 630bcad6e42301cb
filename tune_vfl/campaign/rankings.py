"""Rankings of defenses below caps of leakage, with their certainty, and the table of attacks by defense."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tune_vfl.campaign.challengers import rivals
from tune_vfl.campaign.describing import Describer
from tune_vfl.campaign.tables import CAPS, AttackTable, Met, Rank, Ranking
from tune_vfl.statistics.laws import normal_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.campaign.joint import Joint, JointPoint
    from tune_vfl.outcome import AttackScore


def rankings(joint: Joint, caps: Sequence[float] = CAPS) -> tuple[Ranking, ...]:
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
        variances: of the estimates, without what is common to all.

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


def attack_table(joint: Joint) -> AttackTable:
    """Tabulate the attacks' advantages in each defense's best setting: a confirmed one, else the best compromise."""
    describer = Describer(joint)
    attacks = dict.fromkeys(a.name for part in joint.parts for a in part.cell.attacks)
    points: dict[str, JointPoint] = {}
    cells: dict[tuple[str, str], Met] = {}
    for defense in joint.defenses:
        here = np.asarray([p.defense == defense for p in joint.points], dtype=bool)
        if not here.any():
            continue
        place = rivals(describer, here, by_utility=False)[0]
        points[defense] = joint.points[place]
        settings = [joint.points[i].trial.outcome.attacks for i in np.flatnonzero(here)]
        worst = Counter(_worst(scores) for scores in settings if scores)
        mine = points[defense].trial.outcome.attacks
        for attack, score in mine.items():
            attackers = [n for n in points[defense].trial.outcome.attackers if n.partition("/")[0] == attack]
            scored = points[defense].trial.outcome.attackers
            name = max(attackers, key=lambda n: scored[n].advantage)
            interval = joint.settings.advantage_interval(place, name)
            share = worst[attack] / len(settings)
            cells[defense, attack] = Met(score.advantage, interval, _worst(mine) == attack, share, score.weak_attack)
    return AttackTable(tuple(attacks), tuple(d for d in joint.defenses if d in points), points, cells)


def _worst(scores: dict[str, AttackScore]) -> str:
    return max(scores, key=lambda name: scores[name].advantage)

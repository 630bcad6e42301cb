"""Alternatives to a recommended setting: the runner-up, clearly worse defenses, changes that would alter the choice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tune_vfl.analysis.constraints import nearly
from tune_vfl.analysis.decision import Far
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.formatting import count, listed, setting, short
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics.arrays import Bools, Floats
from tune_vfl.statistics.fronts import TOLERANCES
from tune_vfl.statistics.laws import normal_below, normal_quantile

SMALL = 0.1
"""The smallest chance to be better at which an alternative leaves a decision open."""

FRESH_SEEDS = 10
"""The number of seeds of a suggested confirmation."""


def rivals(describer: Describer, among: Bools, *, by_utility: bool) -> list[int]:
    """Rank settings by the decision's preference: confirmed ones first, then by utility or by compromise.

    Args:
        describer: of all settings.
        among: ``(N,)`` the eligible settings.
        by_utility: rank by utility; else by compromise, of settings on the joint front where any is eligible.

    Returns:
        Places.
    """
    settings, joint = describer.settings, describer.joint
    leakage, places = settings.known[:, 1], np.flatnonzero(among)
    worth = worths(describer, by_utility=by_utility)
    order = np.lexsort((places, leakage[places], -worth[places], ~np.asarray(settings.confirmed, dtype=bool)[places]))
    ranked = [int(i) for i in places[order]]
    if by_utility:
        return ranked
    return sorted(ranked, key=lambda i: not (joint.points[i].on_front or joint.points[i].confirmed))


def worths(describer: Describer, *, by_utility: bool) -> Floats:
    """Return ``(N,)`` what settings are ranked by: utility, else utility minus leakage in the units of the knee."""
    utility, leakage = describer.settings.known.T
    if by_utility:
        return np.asarray(utility)
    wide, high = widths(describer)
    return np.asarray(utility / wide - leakage / high)


def widths(describer: Describer) -> tuple[float, float]:
    """Return the units of utility and leakage; 1 without an undefended model."""
    scale = describer.settings.scale
    if scale is None:
        return 1.0, 1.0
    gain = scale.utility_high - scale.utility_low
    return (gain if gain > 0 else 1.0), (scale.leakage_high if scale.leakage_high > 0 else 1.0)


def chances_over(describer: Describer, some: Sequence[int], other: int, *, by_utility: bool) -> Floats:
    """Return the chance of each setting to be truly better than another; by the means alone without several seeds."""
    settings, worth = describer.settings, worths(describer, by_utility=by_utility)
    gap = worth[list(some)] - worth[other]
    certain = np.where(gap == 0, 0.5, gap > 0)
    if settings.own is None:
        return certain
    wide, high = (1.0, np.inf) if by_utility else widths(describer)
    utility, leakage = (own.variance[list(some)] + own.variance[other] for own in settings.own)
    se = np.sqrt(utility / wide**2 + leakage / high**2)
    return np.where(se > 0, normal_below(gap / np.where(se > 0, se, 1.0)), certain)


def far_from(describer: Describer, chosen: int) -> tuple[Far, ...]:
    """Return the defenses without a nearly equally useful setting at no more leakage (tolerance .02).

    Nearly equally: within half of the 90% interval of the difference, and within the tolerance of .002.
    """
    joint, settings = describer.joint, describer.settings
    utility, leakage = settings.known.T
    low = leakage <= leakage[chosen] + TOLERANCES.leakage
    gaps: dict[str, float | None] = {}
    for defense in joint.defenses:
        here = [i for i, p in enumerate(joint.points) if p.defense == defense]
        if defense == joint.points[chosen].defense or not here:
            continue
        safe = [i for i in here if low[i]]
        best = max(safe, key=lambda i: utility[i], default=None)
        if best is None:
            gaps[defense] = None
        elif utility[chosen] - utility[best] > _tells(describer, chosen, best):
            gaps[defense] = float(utility[chosen] - utility[best])
    near = sorted((gap, name) for name, gap in gaps.items() if gap is not None)
    out = tuple(name for name, gap in gaps.items() if gap is None)
    found = [Far(tuple(name for _, name in near), near[0][0])] if near else []
    return (*found, Far(out, None)) if out else tuple(found)


def _tells(describer: Describer, one: int, other: int) -> float:
    own = describer.settings.own
    if own is None:
        return TOLERANCES.utility
    se = float(np.sqrt(own[0].variance[one] + own[0].variance[other]))
    return max(TOLERANCES.utility, float(normal_quantile(0.95)) * se)


def changes(describer: Describer, chosen: int | None, trusted: Bools) -> Iterator[str]:
    """Yield sentences on changes that would alter a decision.

    Args:
        describer: of the settings on one data set.
        chosen: the recommended setting, or the compromise; None without one.
        trusted: ``(N,)`` the settings of studies without a failed check.
    """
    joint, settings, name = describer.joint, describer.settings, shlex.quote(describer.settings.campaign.name)
    if owed := sum(p.running + p.waiting for p in joint.parts):
        yield f"{count(owed, 'trial is', 'trials are')} still owed: `tune-vfl resume {name}`."
    yield from ended(joint.parts)
    if not len(trusted):
        return
    # Defenses are named that are left out because a check of theirs fails, where others remain.
    doubted = dict.fromkeys(p.defense for p, sound in zip(joint.points, trusted.tolist(), strict=True) if not sound)
    if chosen is not None and doubted:
        yield f"A check fails for {listed(list(doubted))}: they may be recommended when it holds."
    yield from _open(describer, chosen, trusted)
    if wide := sum(p.undecided for p in joint.front):
        has = count(wide, "setting of the front has", "settings of the front have")
        yield f"{has} an undecided leakage: more seeds, or more rows, narrow its interval."
    if chosen is not None and settings.rows[chosen].again is None:
        confirm = f"`tune-vfl confirm {name} --seeds {FRESH_SEEDS}`"
        yield f"It was not measured on fresh seeds: {confirm} says whether it stays."
    elif chosen is not None and not settings.confirmed[chosen]:
        yield "On fresh seeds it is not on the front: it is what keeps the constraints."


def ended(studies: Iterable[StudyRecord]) -> Iterator[str]:
    """Yield a sentence on studies that have ended before their budget was used up."""
    several = list(studies)
    for why in dict.fromkeys(study.ended for study in several if study.ended):
        these = [study.cell.defense for study in several if study.ended == why]
        of = f" of {listed(these)}" if len(several) > 1 else ""
        yield f"The search{of} has ended: {why}; a larger stop.front in the study file goes on."


def _open(describer: Describer, chosen: int | None, trusted: Bools) -> Iterator[str]:
    """Name the strongest alternative, and the settings that more seeds might admit."""
    by_utility, constraints = describer.by_utility, describer.constraints
    among = describer.bounds.keeping(constraints) & trusted
    ranked = [i for i in rivals(describer, among, by_utility=by_utility) if i != chosen]
    if chosen is not None and ranked:
        chances = chances_over(describer, ranked, chosen, by_utility=by_utility)
        best, chance = ranked[int(chances.argmax())], chances.max()
        if chance >= SMALL:
            what = "more useful" if by_utility else "the better compromise"
            yield f"{_called(describer, best)} is {what} with chance {chance:.2f}: more seeds may turn the two."
    close = nearly(describer.bounds, constraints) & trusted if constraints else np.zeros(len(trusted))
    worth = worths(describer, by_utility=by_utility)
    better = [i for i in np.flatnonzero(close).tolist() if chosen is None or worth[i] > worth[chosen]]
    if better:
        best = max(better, key=lambda i: worth[i])
        utility = short(float(describer.settings.known[best, 0]))
        lacks = describer.setting(best, constraints).lacks
        yield f"{_called(describer, best)} ({utility}) would do by its means, but not surely: {'; '.join(lacks)}."


def _called(describer: Describer, place: int) -> str:
    point = describer.settings.rows[place]
    fixed = point.record.cell.fixed
    return f"{point.defense} {setting(point.params, [n for n in point.params if n not in fixed])} ({point.name})"

"""The rule that chooses the setting to deploy on one data set, as a :class:`tune_vfl.analysis.decision.Decision`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tune_vfl.analysis.alternatives import changes, far_from, rivals
from tune_vfl.analysis.constraints import DEPLOYABLE, RUNGS, asked_for, nearest
from tune_vfl.analysis.decision import Decision, Rung
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.formatting import count, listed
from tune_vfl.analysis.joint_front import Joint, joint_of
from tune_vfl.analysis.not_examined import checks_by_study, checks_together, doubted, unexamined
from tune_vfl.evaluation.checks import Check
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.statistics.arrays import Bools


def decide(joint: Joint) -> Decision:
    """Choose the setting to deploy on one data set, or the reason why none is recommended.

    Eligible are settings whose bounds satisfy all constraints and that beat models without a federation. Where a
    constraint bounds the leakage, the choice is the most useful of them. Else it is the best compromise, recommended
    only if it surely leaks no more than ``DEPLOYABLE``, beside the most useful setting at each of ``RUNGS``.

    After a confirmation only settings measured on fresh seeds are eligible, those still on the front first: the
    search's numbers of the others are optimistic. Not eligible are settings of a study with a failed check, and
    settings of undecided leakage.
    """
    describer, checks = Describer(joint), checks_by_study(joint)
    about: dict[str, Any] = {
        "dataset": joint.dataset,
        "metric": joint.metric,
        "constraints": dict(describer.constraints),
        "confidence": describer.bounds.confidence,
        "rule": "constraints" if describer.by_utility else "knee",
        "measured": len(joint.points),
        "checks": checks_together(checks),
        "unexamined": unexamined(joint),
        "undefended": describer.undefended(),
        "alone": describer.alone(),
    }
    if not joint.points:
        owed = tuple(changes(describer, None, np.zeros(0, dtype=bool)))
        return Decision(**about, verdict="nothing_measured", why="no trial has come to a result", changes=owed)
    keeping = describer.bounds.keeping(describer.constraints)
    about["qualifying"] = int(keeping.sum())
    failing = doubted(checks)
    trusted = np.asarray([p.study not in failing for p in joint.points], dtype=bool)
    if not trusted.any():
        return Decision(**about, **_not_trusted(describer, checks))
    sound = trusted & ~np.asarray([p.undecided for p in joint.points])
    fresh = np.asarray([row.again is not None for row in describer.settings.rows])
    if fresh.any():
        about["changes"] = tuple(_unmeasured(describer, sound & (describer.useful() > 0) & keeping & ~fresh))
        sound, trusted = sound & fresh, trusted & fresh
    worth = sound & (describer.useful() > 0)
    chosen = _chosen(describer, worth & keeping)
    if chosen is None:
        answer = _none(describer, sound, keeping)
        answer["changes"] = (*about.pop("changes", ()), *answer["changes"])
    else:
        about.pop("changes", None)
        answer = _answer(describer, chosen, worth & keeping, trusted)
    return Decision(**(about | answer))


def decisions(campaign: CampaignRecord) -> dict[str, Decision]:
    """Return the decision for every data set of a campaign, by its name."""
    return {dataset: decide(joint_of(campaign, dataset)) for dataset in campaign.datasets}


def _unmeasured(describer: Describer, among: Bools) -> Iterator[str]:
    """Name the best eligible setting by the search's numbers, where no setting measured on fresh seeds qualifies."""
    ranked = rivals(describer, among, by_utility=True)
    if ranked:
        point = describer.joint.points[ranked[0]]
        yield (
            f"{count(len(ranked), 'setting')} would do by the search's numbers, such as {point.defense} "
            f"({point.name}), and were not measured on fresh seeds, on which such numbers shrink."
        )


def _chosen(describer: Describer, among: Bools) -> int | None:
    """Return the index of the recommended setting, or of the compromise."""
    knee = describer.joint.knee
    if not describer.by_utility and knee is not None and among[knee.place]:
        return knee.place
    return next(iter(rivals(describer, among, by_utility=describer.by_utility)), None)


def _answer(describer: Describer, chosen: int, among: Bools, trusted: Bools) -> dict[str, Any]:
    """Return the decision for a setting: to deploy it, or that it is a compromise."""
    joint, by_utility, constraints = describer.joint, describer.by_utility, describer.constraints
    ranked = [i for i in rivals(describer, among, by_utility=by_utility) if i != chosen]
    others = [i for i in ranked if joint.points[i].defense != joint.points[chosen].defense]
    second = next(iter(others or ranked), None)
    answer = {
        "why": _why(describer, chosen, int(among.sum())),
        "ladder": () if by_utility else _ladder(describer, among),
        "undefended": describer.undefended(chosen),
        "runner_up": None if second is None else describer.setting(second, constraints),
        "far": far_from(describer, chosen),
        "changes": tuple(changes(describer, chosen, trusted)),
    }
    if by_utility or describer.bounds.keeps("leakage", DEPLOYABLE)[chosen]:
        return {**answer, "verdict": "deploy", "setting": describer.setting(chosen, constraints)}
    compromise = describer.setting(chosen, {**constraints, "leakage": DEPLOYABLE})
    return {**answer, "verdict": "compromise", "compromise": compromise}


def _why(describer: Describer, chosen: int, kept: int) -> str:
    joint, measured = describer.joint, count(len(describer.joint.points), "measured setting")
    surely = f"{kept} of {measured} that surely keep {asked_for(describer.constraints)}"
    if describer.by_utility:
        return f"the most useful of {surely}"
    # Where the knee itself is not eligible, the best eligible setting is not a knee.
    best = joint.knee is not None and joint.knee.place == chosen
    compromise = "the best compromise" if best else "the best eligible compromise"
    front = f"the joint front, {count(len(joint.front), 'setting')} of {measured}"
    return f"{compromise} of {surely if describer.constraints else front}"


def _ladder(describer: Describer, among: Bools) -> tuple[Rung, ...]:
    """Return what a constraint on the leakage would choose among eligible settings, by its limit."""
    rungs = []
    for cap in RUNGS:
        ranked = rivals(describer, among & describer.bounds.keeps("leakage", cap), by_utility=True)
        rungs.append(Rung(cap, describer.setting(ranked[0], {"leakage": cap}) if ranked else None))
    return tuple(rungs)


def _none(describer: Describer, sound: Bools, keeping: Bools) -> dict[str, Any]:
    """Return the decision that no setting qualifies, with the nearest one."""
    useless = sound & keeping & (describer.useful() <= 0)
    if useless.any():
        place = rivals(describer, useless, by_utility=True)[0]
        alone = describer.joint.alone
        party = "a constant answer reaches" if alone is None else f"{alone.who} reaches alone"
        kept = "keeps the constraints" if describer.constraints else "was measured"
        why = f"nothing that {kept} is more useful than what {party}: that needs no federation"
    elif not sound.any():
        place = rivals(describer, ~sound, by_utility=True)[0]
        why = "the leakage of every setting is undecided: half of its interval is too wide to recommend anything"
    else:
        worth = sound & (describer.useful() > 0)
        found = nearest(describer.bounds, describer.constraints, worth if worth.any() else sound)
        assert found is not None  # noqa: S101 - some settings are sound
        place, asked = found, asked_for(describer.constraints)
        settings = count(len(keeping), "measured setting")
        why = f"none of {settings} surely keeps {asked} with {describer.bounds.confidence:.0%} confidence"
    return {
        "verdict": "none_qualifies",
        "why": why,
        "nearest": describer.setting(place, describer.constraints),
        "changes": tuple(changes(describer, None, sound)),
    }


def _not_trusted(describer: Describer, checks: dict[str, tuple[Check, ...]]) -> dict[str, Any]:
    says = listed(list(dict.fromkeys(c.says for found in checks.values() for c in found if not c.ok)))
    nobody = np.zeros(len(describer.joint.points), dtype=bool)
    return {
        "verdict": "not_trusted",
        "why": f"nothing is recommended while a check fails: {says}",
        "changes": tuple(changes(describer, None, nobody)),
    }

"""The JSON formats of studies and campaigns: ``tune-vfl/campaign/1``, and ``tune-vfl/study/1`` of a single study."""

from __future__ import annotations

from typing import Any

from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import Joint, JointPoint, joint_of
from tune_vfl.analysis.sentences import sentences
from tune_vfl.analysis.study_summary import study_frontier, study_summary
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import named_uri
from tune_vfl.metrics import pareto
from tune_vfl.metrics.published import published
from tune_vfl.records.campaigns import CampaignRecord

CAMPAIGN_SCHEMA = "tune-vfl/campaign/1"
# Fields that refer to the worst attack or to its joint front, left out of a front against another attack.
_OF_THE_WORST = ("leakage_interval", "leakage_worst_seed", "undecided", "chance", "together")


def summary(campaign: CampaignRecord) -> dict[str, Any]:
    """Return the output of ``search --json`` and ``status --json``.

    Returns:
        Of a single study :func:`study_summary` and its ``decision``. Of a campaign:
        ``front``: the joint fronts of its data sets, each by falling utility. ``decisions``: by data set, see
        :meth:`tune_vfl.analysis.decision.Decision.plain`, and ``says``, the same in sentences. ``checks``: of all data
        sets; with several they carry the name of theirs.
    """
    if campaign.lone:
        return {**study_summary(campaign.studies[0]), "decision": _told(decide(campaign, joint_of(campaign)))}
    joints = {dataset: joint_of(campaign, dataset) for dataset in campaign.datasets}
    decided = {dataset: decide(campaign, joint) for dataset, joint in joints.items()}
    one = len(joints) == 1
    checks = [
        {**check.model_dump(), **({} if one else {"dataset": dataset})}
        for dataset, decision in decided.items()
        for check in decision.checks
    ]
    tracking = campaign.studies[0].spec.tracking
    return {
        "schema": CAMPAIGN_SCHEMA,
        "campaign": campaign.name,
        "studies": [study_summary(part) for part in campaign.studies],
        "trials": {"asked": campaign.trials, "counted": sum(len(part.counted) for part in campaign.studies)},
        "front": [point for joint in joints.values() for point in front_of(joint)],
        "hypervolume": {dataset: joint.hypervolume for dataset, joint in joints.items()},
        "decisions": {dataset: _told(decision) for dataset, decision in decided.items()},
        "skipped": [{"study": s.study, "attack": s.attack, "problems": list(s.problems)} for s in campaign.skipped],
        "checks": checks,
        "mlflow": {"experiment": campaign.name, "tracking_uri": hide_password(named_uri(tracking))},
    }


def _told(decision: Decision) -> dict[str, Any]:
    return {**decision.plain(), "says": sentences(decision)}


def frontier(campaign: CampaignRecord, attack: str | None = None) -> list[dict[str, Any]]:
    """Return the joint fronts of all data sets as plain data; of a single study :func:`study_frontier`.

    Args:
        campaign: the campaign.
        attack: take this attack's advantage for the leakage instead of the worst attack's.
    """
    if campaign.lone:
        return study_frontier(campaign.studies[0], attack)
    if attack is not None:
        return frontier_against(campaign, attack)
    return [point for dataset in campaign.datasets for point in front_of(joint_of(campaign, dataset))]


def frontier_against(campaign: CampaignRecord, attack: str) -> list[dict[str, Any]]:
    """Return the joint fronts against one attack alone, whose advantage is then the ``leakage``.

    Left out are studies whose defense removes the attack's input, and settings where others had found nearly all: the
    attack was not run on them.
    """
    found = []
    for dataset in campaign.datasets:
        joint = joint_of(campaign, dataset)
        met = [p for p in joint.points if attack in p.trial.outcome.attacks]
        objectives = [(p.objectives[0], p.trial.outcome.attacks[attack].advantage) for p in met]
        front = [(p, o) for p, o, on in zip(met, objectives, pareto.front(objectives).tolist(), strict=True) if on]
        describer = Describer(joint)
        for point, (utility, leakage) in sorted(front, key=lambda f: -f[1][0]):
            spread = point.trial.outcome.attacks[attack].advantage_std or 0.0
            plain = {**_point(describer, point, []), "utility": utility, "leakage": leakage, "leakage_std": spread}
            found.append({k: v for k, v in plain.items() if k not in _OF_THE_WORST})
    return found


def front_of(joint: Joint) -> list[dict[str, Any]]:
    """Return a joint front as plain data, by falling utility.

    A point has the fields of a study's front, and ``study``, ``dataset``, ``defense``, ``chance`` (of being on the
    joint front), ``cost``, and ``together``: its neighbors without a significant difference (``STUDY#21``).
    """
    describer = Describer(joint)
    alike = {p.name: [q.name for q in group.points if q is not p] for group in joint.together for p in group.points}
    return [_point(describer, point, alike[point.name]) for point in joint.front]


def _point(describer: Describer, point: JointPoint, alike: list[str]) -> dict[str, Any]:
    outcome, (utility, leakage) = point.trial.outcome, point.objectives
    alone, record = describer.joint.alone, describer.settings.rows[describer.place(point)].record
    return {
        "study": point.study,
        "dataset": point.dataset,
        "defense": point.defense,
        "number": point.number,
        "params": point.params,
        "utility": utility,
        "leakage": leakage,
        "utility_std": outcome.utility.std if outcome.utility else 0.0,
        "leakage_std": outcome.leakage_std or 0.0,
        **point.sure.numbers(),
        **({} if alone is None else {"gain_kept": alone.kept(utility)}),
        "attacks": {name: score.mean for name, score in outcome.attacks.items()},
        **({"not_needed": outcome.not_needed} if outcome.not_needed else {}),
        "published": published(outcome),
        "measure": record.measure,
        "confirmed": point.confirmed,
        **({} if point.again is None or not point.confirmed else {"confirmation": point.again.numbers()}),
        "chance": point.chance,
        "cost": record.cost,
        "together": alike,
    }

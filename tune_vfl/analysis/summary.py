"""The JSON formats ``tune-vfl/study/1`` of a single study and ``tune-vfl/campaign/1`` of several."""

from __future__ import annotations

from typing import Any

from tune_vfl.analysis.alternatives import ended
from tune_vfl.analysis.columns import values
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.joint_front import Joint, joint_of
from tune_vfl.analysis.reliability import checks_of
from tune_vfl.analysis.sentences import sentences
from tune_vfl.analysis.setting import MeasuredModel, Setting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.errors import UnknownNameError
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import named_uri
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import StudySpec

STUDY_SCHEMA = "tune-vfl/study/1"
CAMPAIGN_SCHEMA = "tune-vfl/campaign/1"

_MEANS = ("utility", "leakage", "utility_std", "leakage_std")
_INTERVALS = ("utility_interval", "leakage_interval", "leakage_worst_seed", "undecided")
POINT = (
    *("number", "params", *_MEANS, *_INTERVALS, "gain_kept", "attacks", "not_needed", "published"),
    *("measure", "confirmed", "confirmation"),
)
"""Columns of a point of a study's front."""
JOINT_POINT = ("study", "dataset", "defense", *POINT, "chance", "cost")
"""Columns of a point of a joint front."""
# Fields that refer to the worst attack or to its joint front, left out of a joint front against another attack.
_OF_THE_WORST = ("leakage_interval", "leakage_worst_seed", "undecided", "chance")
_BASELINE = ("outcome", *_MEANS, *_INTERVALS, "alone", "alone_interval", "attacks", "measure")
_FAILED_BASELINE = ("outcome", "reason", "utility", "leakage", "attacks", "measure")


def summary(campaign: CampaignRecord) -> dict[str, Any]:
    """Return the output of ``search --json`` and ``status --json``.

    Returns:
        Of a single study :func:`study_summary` and its ``decision``. Of a campaign:
        ``front``: the joint fronts of its data sets, each by falling utility. ``decisions``: by data set, see
        :meth:`tune_vfl.analysis.decision.Decision.plain`, and ``says``, the same in sentences. ``checks``: of all data
        sets; with several they carry the name of theirs. ``ended``: sentences on studies that have ended before their
        budget was used up; only where there are some.
    """
    over = {"ended": said} if (said := list(ended(campaign.studies))) else {}
    if campaign.lone:
        return {**study_summary(campaign.studies[0]), "decision": _told(decide(joint_of(campaign))), **over}
    joints = {dataset: joint_of(campaign, dataset) for dataset in campaign.datasets}
    decided = {dataset: decide(joint) for dataset, joint in joints.items()}
    one = len(joints) == 1
    checks = [
        {**check.model_dump(), **({} if one else {"dataset": dataset})}
        for dataset, decision in decided.items()
        for check in decision.checks
    ]
    return {
        "schema": CAMPAIGN_SCHEMA,
        "campaign": campaign.name,
        "studies": [study_summary(part) for part in campaign.studies],
        "trials": {"asked": campaign.trials, "counted": sum(len(part.counted) for part in campaign.studies)},
        "front": [point for joint in joints.values() for point in _joint_front(joint)],
        "hypervolume": {dataset: joint.hypervolume for dataset, joint in joints.items()},
        "decisions": {dataset: _told(decision) for dataset, decision in decided.items()},
        "skipped": [{"study": s.study, "attack": s.attack, "problems": list(s.problems)} for s in campaign.skipped],
        "checks": checks,
        "mlflow": _mlflow(campaign.name, campaign.studies[0].spec),
        **over,
    }


def _told(decision: Decision) -> dict[str, Any]:
    return {**decision.plain(), "says": sentences(decision)}


def _mlflow(experiment: str, spec: StudySpec) -> dict[str, str]:
    return {"experiment": experiment, "tracking_uri": hide_password(named_uri(spec.tracking))}


def study_summary(record: StudyRecord) -> dict[str, Any]:
    """Return one study's progress, baseline, front and checks, by its own settings alone."""
    joint = Joint(record)
    return {
        "schema": STUDY_SCHEMA,
        "study": record.name,
        "measure": record.measure,
        "trials": record.by_outcome(),
        "hypervolume": joint.hypervolume,
        "reference_point": list(joint.reference),
        "baseline": _baseline(record, joint.settings),
        "front": [values(point, POINT) for point in joint.front],
        "knee": None if joint.knee is None else joint.knee.number,
        "cost": record.cost,
        "checks": [check.model_dump() for check in checks_of(record)],
        "mlflow": _mlflow(record.name, record.spec),
    }


def _baseline(record: StudyRecord, settings: SettingsTable) -> dict[str, Any] | None:
    """Return the undefended model's numbers; how it ended where it has none, and None before it was measured."""
    if settings.baseline is not None:
        return values(settings.baseline, _BASELINE)
    if record.baseline is None:
        return None
    return values(MeasuredModel(settings, record, record.baseline), _FAILED_BASELINE)


def frontier(campaign: CampaignRecord, attack: str | None = None) -> list[dict[str, Any]]:
    """Return the joint fronts of all data sets as plain data, each by falling utility; equal points all stay.

    Args:
        campaign: the campaign, or a single study as one.
        attack: take this attack's advantage for the leakage instead of the worst attack's.

    Returns:
        A dict a point: ``number``, ``params``, ``utility``, ``leakage``, their standard deviations over the
        seeds and 90% intervals, ``leakage_worst_seed``, ``gain_kept`` (the share of what the federation adds to the
        label party's own model; null where it adds nothing), ``attacks``, the success of each by name,
        ``not_needed``, the reason for each that was left out, ``published``, the papers' scalars by attack, and
        ``confirmation``, the numbers of fresh seeds, of one that stayed on the front. Of a campaign also ``study``,
        ``dataset``, ``defense``, ``chance`` (of being on the joint front), ``cost``, and ``together``: its neighbors
        without a significant difference (``STUDY#21``).

    Raises:
        UnknownNameError: when no study ran such an attack; the message lists those that were run.
    """
    if campaign.lone:
        return [values(point, POINT) for point in front_settings(campaign, attack)]
    if attack is not None:
        known = [name for name in JOINT_POINT if name not in _OF_THE_WORST]
        return [values(point, known) for point in front_settings(campaign, attack)]
    return [point for dataset in campaign.datasets for point in _joint_front(joint_of(campaign, dataset))]


def front_settings(campaign: CampaignRecord, attack: str | None = None) -> list[Setting]:
    """Return the settings on the joint fronts of all data sets; arguments and errors as of :func:`frontier`.

    With an attack, studies whose defense removes its input are left out, and settings on which it was not run because
    others had found nearly all.
    """
    known = dict.fromkeys(a.name for study in campaign.studies for a in study.cell.attacks)
    if attack is not None and attack not in known:
        raise UnknownNameError(f"attack of {campaign.name}", attack, known)
    return [point for dataset in campaign.datasets for point in SettingsTable(campaign.on(dataset)).front(attack)]


def _joint_front(joint: Joint) -> list[dict[str, Any]]:
    alike = {p.name: [q.name for q in group if q is not p] for group in joint.together for p in group}
    return [values(point, (*JOINT_POINT, "together"), together=alike[point.name]) for point in joint.front]

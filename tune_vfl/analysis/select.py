"""The option ``--select``: one setting of a campaign or study, by name, by conditions, or by the decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.formatting import number
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.selection import Selection, choose, parse, setting_of
from tune_vfl.analysis.sentences import called, sentences
from tune_vfl.analysis.setting import Setting
from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord

DEFAULT = "decision"
"""What is selected where ``--select`` is left out."""


def select(campaign: CampaignRecord, by: str = DEFAULT, dataset: str | None = None) -> Setting:
    """Select one setting.

    Args:
        campaign: a campaign, or a single study as one.
        by: ``decision``, the recommended setting; ``knee``, ``max-utility`` or ``min-leakage`` of the joint front;
            conditions, see :func:`tune_vfl.analysis.selection.meeting`; ``STUDY#21``, of a single study ``trial=21``;
            or the name of a defense or study: its own decision where the campaign has constraints, else its own knee.
        dataset: its name; not needed where there is one, or where ``by`` names a study.

    Raises:
        UsageError: for another ``by``, or where several data sets leave the choice open.
        UnknownNameError: for another data set.
        SelectionError: when there is no such setting, or none is recommended; the message names those to choose from.
    """
    selection = parse(by)
    if selection.rule == "trial":
        return setting_of(_study(campaign, selection), selection)
    if selection.rule == "name":
        return _named(campaign, selection, dataset)
    return _by_rule(campaign.on_one(dataset), selection)


def _study(campaign: CampaignRecord, selection: Selection) -> StudyRecord:
    names = [part.name for part in campaign.studies]
    if selection.study is None and len(names) == 1:
        return campaign.studies[0]
    if selection.study in names:
        return campaign.study(str(selection.study))
    example = f"{names[0]}#{selection.number}"
    raise UsageError(f"--select {selection.text!r}: expected one of the studies {', '.join(names)}, as in {example!r}")


def _named(campaign: CampaignRecord, selection: Selection, dataset: str | None) -> Setting:
    """Return the best setting of one defense, or of one study."""
    parts = [p for p in campaign.studies if selection.study in (p.name, p.cell.defense)]
    if not parts:
        known = dict.fromkeys(p.cell.defense for p in campaign.studies)
        raise UsageError(
            f"--select {selection.text!r}: neither a rule nor a defense or study of {campaign.name!r}; expected knee, "
            f"max-utility, min-leakage, decision, conditions, STUDY#21, or one of {', '.join(known)}"
        )
    part = replace(campaign, studies=tuple(parts)).on_one(dataset)
    return _by_rule(part, selection._replace(rule="decision" if campaign.constraints else "knee"))


def _by_rule(part: CampaignRecord, selection: Selection) -> Setting:
    joint = joint_of(part)
    if not joint.points:
        raise SelectionError(f"{part.name!r} has no point to select from: none of its trials ended ok")
    if selection.rule == "decision":
        decision = decide(joint)
        if (chosen := decision.setting) is not None:
            return joint.settings.rows[joint.settings.place[chosen.study, chosen.number]]
        says = sentences(decision)[: None if decision.compromise is None else 2]  # the others are those of the choices
        knee = joint.knee if selection.study is None else None  # a defense's own knee is not the campaign's
        raise SelectionError("\n  ".join([" ".join(says), *_choices(decision, knee)]))
    if selection.rule == "knee":
        assert joint.knee is not None  # noqa: S101 - there are points
        return joint.knee
    return joint.settings.rows[choose(joint.settings, selection)]


def _choices(decision: Decision, knee: Setting | None) -> Iterator[str]:
    """Yield the options by which a setting is selected where none is recommended."""
    before = None
    for cap, found in ((rung.cap, rung.setting) for rung in decision.ladder):
        if found is not None and (before is None or found.name != before.name):
            yield f"--select '{found.name}'  leakage surely at most {number(cap)}: {called(found)}"
        before = found
    if (compromise := decision.compromise) is not None:
        by = "knee" if knee is not None and knee.name == compromise.name else f"'{compromise.name}'"
        yield f"--select {by}  takes the compromise all the same: {called(compromise)}"
    else:
        near = "STUDY#NUMBER" if decision.nearest is None else decision.nearest.name
        yield f"--select '{near}'  takes one all the same"

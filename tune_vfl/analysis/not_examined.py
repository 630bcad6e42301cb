"""Limits of a campaign: incompatible pairs, attacks not run, adversaries not covered, rows not used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tune_vfl.analysis.formatting import listed
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.reliability import checks_of
from tune_vfl.evaluation.checks import Check
from tune_vfl.evaluation.coverage import Coverage, coverage_of
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec.cell import MEASURE


def coverage(record: StudyRecord) -> Coverage:
    """Return the adversaries that a study covers; derived from the spec where the record has none."""
    return coverage_of(record.spec, record.cell) if record.coverage is None else record.coverage


def untried(record: StudyRecord) -> tuple[str, ...]:
    """Return the attacks of a competent adversary that a study did not run: by fewer, any defense looks good.

    Attacks that do not fit the study's data, model or defense are left out. A study with unregistered
    attacks gives none.
    """
    return coverage(record).untried


def checks_by_study(joint: Joint) -> dict[str, tuple[Check, ...]]:
    """Return the checks of every study, passed or failed, with those on attacks that were not run."""
    by_study = {part.name: checks_of(part) for part in joint.parts}
    for part in joint.parts:
        if missing := untried(part):
            says = f"not tried: {listed(missing)}; search with `attacks: default` before you choose"
            by_study[part.name] += (Check(name="untried", ok=False, says=says),)
    return by_study


def doubted(checks: Mapping[str, tuple[Check, ...]]) -> set[str]:
    """Return the studies of which a check fails: none of their settings is recommended.

    Args:
        checks: by study, as :func:`checks_by_study` returns them.
    """
    return {study for study, found in checks.items() if not all(check.ok for check in found)}


def checks_together(by_study: dict[str, tuple[Check, ...]]) -> tuple[Check, ...]:
    """Return every check once; one that not all studies share names its studies."""
    found: dict[tuple[str, bool, str], list[str]] = {}
    for study, checks in by_study.items():
        for check in checks:
            found.setdefault((check.name, check.ok, check.says), []).append(study)
    return tuple(
        Check(name=name, ok=ok, says=says if len(studies) == len(by_study) else f"{says} ({listed(studies)})")
        for (name, ok, says), studies in found.items()
    )


def unexamined(joint: Joint) -> tuple[str, ...]:
    """Return sentences on the gaps of the measurements on one data set."""
    return tuple(_gaps(joint))


def _gaps(joint: Joint) -> Iterator[str]:
    yield from _skipped(joint)
    measure = joint.parts[0].measure
    if measure != MEASURE:
        yield (
            f"Today's attacks, which may find more: this is measure {measure}, and today's is {MEASURE}; "
            "`tune-vfl search STUDY.yaml --name NEW` measures again."
        )
    missing: dict[tuple[str, ...], list[str]] = {}
    for part in joint.parts:
        if names := untried(part):
            missing.setdefault(names, []).append(part.cell.defense)
    for names, defenses in missing.items():
        yield f"Attacks that were not tried on {listed(defenses)}: {listed(names)}."
    yield from _other_attackers(joint)
    if not any(p.trial.outcome.utility_variance for p in joint.points):
        yield f"Other rows: {joint.metric} has no formula for them, so its intervals speak of this data set alone."
    yield "Rows of another source or a later time: intervals speak of rows like these."


def _skipped(joint: Joint) -> Iterator[str]:
    """Yield sentences on incompatible pairs, one for each reason."""
    defenses = {part.name: part.cell.defense for part in joint.parts}
    why: dict[tuple[str | None, str], list[str]] = {}
    for left in joint.settings.campaign.skipped:
        why.setdefault((left.attack, "; ".join(left.problems)), []).append(defenses.get(left.study, left.study))
    for (attack, problems), names in why.items():
        what = listed(names) if attack is None else f"{attack} on {listed(names)}"
        yield f"Skipped: {what} ({problems})."


def _other_attackers(joint: Joint) -> Iterator[str]:
    covered = [coverage(part) for part in joint.parts]
    if not any(one.acts for one in covered):
        yield "Attackers who act: no attack took part in the training and changed what it sends."
    if not any(one.features for one in covered):
        yield "Features: only what is revealed of labels was measured."
    if not any(part.confirmation and any(p.tuned for p in part.confirmation.points) for part in joint.parts):
        yield "Attackers tuned against the setting itself: `tune-vfl confirm --adaptive MINUTES` tunes them."

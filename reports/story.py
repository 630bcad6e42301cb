"""Sentences of a report on one study: the question, the answer, warnings, remarks and commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reports.confirmed import again
from reports.naming import moving_params
from tune_vfl.analysis import formatting
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.not_examined import coverage, untried
from tune_vfl.analysis.reliability import checks_of
from tune_vfl.analysis.setting import Setting
from tune_vfl.evaluation.checks import NOTHING_TO_PROTECT
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named
from tune_vfl.spec.cell import is_ordinary


class Story(NamedTuple):
    """The texts on one study.

    Attributes:
        joint: its settings and their front.
        asked: the question; ``answer``: the answer in a sentence or two.
        failing: the failed checks, a sentence each; any of them prevents a recommendation.
        warnings: limits of the numbers that a reader must know.
        remarks: reading aids, and notes of the methods.
        commands: ``(purpose, command line)``.
    """

    joint: Joint
    asked: str
    answer: str
    failing: list[str]
    warnings: list[str]
    remarks: list[str]
    commands: list[tuple[str, str]]


def story(record: StudyRecord) -> Story:
    """Write the texts on a study."""
    joint = Joint(record)
    failing = [formatting.sentence(check.says) for check in checks_of(record) if not check.ok]
    if missing := untried(record):  # any defense looks good against few attacks
        failing.append(f"Not tried: {formatting.listed(missing)}. Search with `attacks: default` before you choose.")
    unfinished = []
    if owed := record.running + record.waiting:
        trials = formatting.count(owed, "trial is", "trials are")
        unfinished.append(f"This study is not finished: {trials} still owed, and the front may move.")
    one_seed = "One seed: there are no error bars, and small differences between settings are chance."
    chance = [one_seed] if len(record.cell.seeds) == 1 else []
    return Story(
        joint=joint,
        asked=_asked(record),
        answer=_answer(record, joint, failing=bool(failing)),
        failing=failing,
        warnings=[*unfinished, *_useless(joint), *_weak(joint), *_blind(record), *chance],
        remarks=list(_remarks(record)),
        commands=commands(record.name, record.spec.budget.trials),
    )


def _asked(record: StudyRecord) -> str:
    cell = record.cell
    attacks = formatting.listed([a.name for a in cell.attacks])
    seeds = formatting.count(len(cell.seeds), "seed")
    return (
        f"Which setting of {cell.defense} protects the {secrets([record])} of {cell.dataset.name} from {attacks} "
        f"at the least cost in {formatting.metric(cell.metric)}? "
        f"Model {cell.model.name}, each setting measured with {seeds}."
    )


def secrets(records: Iterable[StudyRecord]) -> str:
    """Return the targets of the studies' attacks, in words."""
    return formatting.listed(sorted({goal for record in records for goal in coverage(record).goals}, reverse=True))


def _answer(record: StudyRecord, joint: Joint, *, failing: bool) -> str:
    knee = joint.knee
    if knee is None:
        counted = formatting.count(len(record.counted), "finished trial")
        return f"No answer yet: none of {counted} came to a result." if record.counted else "No trial has finished yet."
    front = f"{len(joint.front)} of {formatting.count(len(joint.points), 'measured setting')} are"
    if failing:
        return f"Nothing is recommended while a check fails. {front} on the front."
    share = f"{front} worth choosing from."
    choice = f"The best compromise is {formatting.setting(knee.params)} (trial {knee.number})"
    if joint.undefended is None:
        metric = formatting.metric(joint.metric)
        ends = f"{metric} {formatting.score(knee.utility)} at leakage {formatting.score(knee.leakage)}"
        return f"{share} {choice}: {ends}; the undefended model was not measured."
    return f"{share} {choice}: {_cost(joint, knee)} {again(record, knee.number)}".rstrip()


def _cost(joint: Joint, knee: Setting) -> str:
    known, metric = joint.undefended, formatting.metric(joint.metric)
    assert known is not None  # noqa: S101 - the caller has checked
    change, gain = knee.utility - known.utility, known.leakage - knee.leakage
    costs = f"costs {-change:.3f} {metric}" if change < 0 else f"costs no {metric}"
    brings = f"takes leakage from {known.leakage:.3f} to {knee.leakage:.3f}"
    if gain <= 0:
        brings = f"does not lower leakage ({known.leakage:.3f} undefended, {knee.leakage:.3f} with it)"
    if gain > 0 and knee.leakage_interval is not None:
        low, high = knee.leakage_interval
        brings += f" (90% interval {low:.3f} to {high:.3f}, before it is confirmed)"
    return f"it {costs} ({knee.utility:.3f} against {known.utility:.3f} undefended) and {brings}."


def _useless(joint: Joint) -> list[str]:
    """Warn of settings no more useful than a guess, which needs no federation."""
    found = [p for p in joint.by_leakage if p.utility <= joint.reference[0]]
    if not found:
        return []
    numbers = formatting.listed([str(n) for n in sorted(p.number for p in found)])
    trials, are = ("trials", "are") if len(found) > 1 else ("trial", "is")
    knee = " That is so of the knee too: choose another setting, or none." if joint.knee in found else ""
    what = f"{trials} {numbers} of the front {are} as useful as a constant answer or less"
    return [f"No better than a guess: {what} ({formatting.metric(joint.metric)} {joint.reference[0]:.3f}).{knee}"]


def _weak(joint: Joint) -> list[str]:
    """Warn of weak attacks, whose small success is no evidence for the defense."""
    found = []
    for name in dict.fromkeys(name for p in joint.by_leakage for name in p.weak):
        numbers = sorted(p.number for p in joint.by_leakage if name in p.weak)
        trials = f"trial{'s' if len(numbers) > 1 else ''} {formatting.listed([str(n) for n in numbers])}"
        found.append(
            f"Attack too weak: {name} on {trials} of the front found less than the same attack finds "
            "on a model that was never trained. "
            "That says that the attack is too weak there, not that the defense is good."
        )
    knee = joint.knee
    if knee and knee.weak and len(knee.weak) == len(knee.outcome.attacks):
        found.insert(0, "Every attack was too weak at the knee: its leakage says nothing about the defense.")
    if joint.undefended and joint.undefended.leakage < NOTHING_TO_PROTECT:
        found.insert(
            0,
            f"The attacks find almost nothing even in the undefended model (leakage {joint.undefended.leakage:.3f}): "
            "this study cannot tell good settings from bad ones. Use stronger attacks or more auxiliary labels.",
        )
    return found


def _blind(record: StudyRecord) -> list[str]:
    """Warn of a defense of gradients that was attacked through gradients alone."""
    if not coverage(record).gradients_alone:
        return []
    names = [a.name for a in record.cell.attacks]
    return [
        (
            f"{record.cell.defense} protects gradients only, and only attacks that read gradients were run "
            f"({formatting.listed(names)}). "
            "What the trained bottom model itself reveals was not measured: add the attack pmc."
        )
    ]


def _remarks(record: StudyRecord) -> Iterator[str]:
    """Yield how the undefended model was trained where training is searched, upper bounds, and the trials' notes."""
    if names := [n for n in moving_params(record) if is_ordinary(n)]:
        from tune_vfl.spaces.recipe import own_values

        own = own_values(record.cell, names)
        searched = f"Searched along with the defense: {formatting.listed(list(own))}. The undefended model has"
        yield f"{searched} {formatting.setting(own)}, so a setting may be more useful than it is."
    undefended = [record.baseline] if record.baseline else []
    measured = [*(t.outcome for t in record.ok), *undefended]
    for name in dict.fromkeys(n for o in measured for n, s in o.attacks.items() if s.upper_bound):
        counts = "an upper bound, which counts: by an oracle, or a variant that the attacker could not have chosen."
        yield f"{name}: {counts}"
    yield from dict.fromkeys(note for o in (*(t.outcome for t in record.trials), *undefended) for note in o.notes)


def commands(name: str, trials: int) -> list[tuple[str, str]]:
    """Return the suggested next commands: ``(purpose, command line)``."""
    quoted = shlex.quote(name)
    return [
        ("measure the front again, with fresh seeds", f"tune-vfl confirm {quoted} --seeds 10"),
        ("export the setting to deploy, or see which there are", f"tune-vfl export {quoted} -o best.json"),
        ("print this front", f"tune-vfl frontier {quoted} --format csv"),
        ("spend more trials", f"tune-vfl resume {quoted} --trials {2 * trials}"),
        ("run it again, under another name", f"tune-vfl search {quoted}.yaml --name {quoted}-again"),
    ]


def options(thing: Named) -> str:
    """Return a component's name with its options, for the table of the setup."""
    return f"{thing.name} ({formatting.setting(thing.options)})" if thing.options else thing.name

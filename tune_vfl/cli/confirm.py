"""``tune-vfl confirm``: measure a search's chosen settings again, with new seeds and on reserved rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import cell, emit, emit_json, emit_table, note, say
from tune_vfl.cli.search import STOPPED

if TYPE_CHECKING:
    from tune_vfl.records.confirmations import Confirmation, ConfirmedPoint, Line, UndefendedModel
    from tune_vfl.records.joint_confirmation import JointConfirmation

WITH_FAILURES = 3


def confirm(
    name: Name,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=10_000, help="Fresh seeds for each setting that is kept: 1000, ...")
    ] = 10,
    adaptive: Annotated[
        float,
        typer.Option(
            "--adaptive", min=0.0, metavar="MINUTES", help="Tune attackers against each setting that stays, so long."
        ),
    ] = 0.0,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """Measure a front and its nearest neighbors again: settings that stay on it, and their unbiased numbers.

    Of a campaign it is the joint front of all defenses on each data set, compared on the same fresh seeds.

    The seeds are fresh, and utility is measured on the reserve, which no search trains or measures on. Settings whose
    place is clear are settled with few seeds, contested ones get up to twice --seeds. Stopped by Ctrl-C or killed, the
    same command goes on where it was left; once everything is there it only answers.

    With --adaptive, attackers are tuned against each setting that stays, on five trainings: which attack, what it reads
    and how. They are scored on rows that they were not tuned on; the leakage is theirs where they find more.

    Exits 3 when a setting could not be measured, and 130 when it was stopped.

    Example: `tune-vfl confirm kdk-bank --seeds 10`
    """
    from tune_vfl.analysis.decide import decisions
    from tune_vfl.analysis.sentences import sentences
    from tune_vfl.service.projecting import confirm_named
    from tune_vfl.service.studies import campaign_record

    ended = confirm_named(name, seeds=seeds, adaptive=adaptive, storage=storage)
    if ended.answer is None:
        raise typer.Exit(STOPPED)
    if json:
        emit_json(ended.answer.plain())
    else:
        _show(ended.answer)
        found = decisions(campaign_record(name, storage))
        for dataset, decision in found.items():
            emit("\n".join([f"{dataset}:"] * (len(found) > 1) + list(sentences(decision))))
    if ended.failed:
        raise typer.Exit(WITH_FAILURES)


def _show(answer: Confirmation | JointConfirmation) -> None:
    from tune_vfl.records.confirmations import Confirmation

    front: dict[str, Any]
    if isinstance(answer, Confirmation):
        front = {"points": answer.points, "undefended": answer.baseline, "gap": answer.gap}
        lines = [([str(n) for n in line.numbers], _range(line)) for line in answer.lines]
        _show_front(answer.name, len(answer.seeds), lines, joint=False, **front)
    else:
        for dataset, undefended in answer.baseline.items():
            front = {"points": answer.on(dataset), "undefended": undefended, "gap": answer.gap[dataset]}
            lines = [([str(p) for p in line.points], _range(line)) for line in answer.lines if line.dataset == dataset]
            _show_front(f"{answer.name} on {dataset}", len(answer.seeds), lines, joint=True, **front)
    for check in answer.checks:
        if not check.ok:
            note(check.says)
    say(f"the page with it: `tune-vfl report {answer.name}`")


def _show_front(
    title: str,
    seeds: int,
    lines: Sequence[tuple[list[str], str]],
    *,
    points: Sequence[ConfirmedPoint],
    undefended: UndefendedModel,
    gap: Mapping[str, float],
    joint: bool,
) -> None:
    """Print a study's confirmed front, or the joint one of a data set, where a setting is called ``STUDY#21``."""
    on_front = [p for p in points if p.on_front]
    stay = sum(p.confirmed for p in on_front)
    joined = sum(p.confirmed for p in points) - stay
    join = f", {joined} {'neighbor joins' if joined == 1 else 'neighbors join'} them" if joined else ""
    front = "joint front" if joint else "front"
    emit(f"{title}: {stay} of {len(on_front)} points of the {front} stay{join}, on {seeds} fresh seeds")
    rows = [_row(p, _name(p, joint=joint)) for p in points]
    if undefended.outcome == "ok":
        numbers = (
            _span(undefended.utility, undefended.utility_interval),
            "",
            _span(undefended.leakage, undefended.leakage_interval),
        )
        rows.append(["-", "no defense", undefended.seeds, "", *numbers, ""])
    emit_table(("trial", "setting", "seeds", "stays", "utility", "searched", "leakage", "searched"), rows)
    for names, varies in lines:
        if len(names) > 1:
            emit(f"cannot be told apart: trials {', '.join(names)}{f' ({varies})' if varies else ''}")
    if gap:
        utility, leakage = gap["utility"], gap["leakage"]
        looked = f"{abs(utility):.4f} {'better' if utility >= 0 else 'worse'} in utility and {abs(leakage):.3f} "
        emit(f"the search's front looked {looked}{'less' if leakage >= 0 else 'more'} leaky, on average")
    for point in points:
        if point.tuned is not None:
            emit(f"tuned against trial {_name(point, joint=joint)}: {_by(point)}")


def _name(point: ConfirmedPoint, *, joint: bool) -> str:
    return f"{point.study}#{point.number}" if joint else str(point.number)


def _row(point: ConfirmedPoint, name: str) -> list[object]:
    setting, searched = cell(point.params), point.searched
    if point.outcome != "ok":
        return [name, setting, point.seeds, point.outcome, "", searched["utility"], "", searched["leakage"]]
    stays = f"{point.stays:.2f}" + ("" if point.confirmed else " (goes)")
    return [
        name,
        setting,
        point.seeds,
        stays,
        _span(point.utility, point.utility_interval),
        f"{searched['utility']:.4f}",
        _span(point.leakage, point.leakage_interval),
        f"{searched['leakage']:.3f}",
    ]


def _by(point: ConfirmedPoint) -> str:
    """Return the attacker that was tuned against a setting, and the others' success."""
    found = point.tuned
    assert found is not None  # noqa: S101 - the caller has checked
    settings = f" {cell(found.params)}" if found.params else ""
    mean = sum(found.advantages) / len(found.advantages)
    return f"{found.attack}{settings} leaks {mean:.3f}, others {point.leakage_untuned:.3f} ({found.tried} tried)"


def _span(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None or interval is None:
        return "-"
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _range(line: Line) -> str:
    """Return the ranges of the parameters that vary within a line."""
    return ", ".join(f"{name} {' to '.join(cell(v) for v in values)}" for name, values in line.params.items())

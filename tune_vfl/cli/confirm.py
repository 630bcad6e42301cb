"""``tune-vfl confirm``: measure a search's chosen settings again, with new seeds and on reserved rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tune_vfl.cli.options import Json, Name, Storage
from tune_vfl.cli.output import cell, emit, emit_json, emit_table, note, say
from tune_vfl.cli.search import STOPPED

if TYPE_CHECKING:
    from tune_vfl.records.answers import Confirmation
    from tune_vfl.records.confirmations import ConfirmedPoint

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


def _show(answer: Confirmation) -> None:
    for dataset in answer.baseline:
        _show_front(answer, dataset)
    for check in answer.checks:
        if not check.ok:
            note(check.says)
    say(f"the page with it: `tune-vfl report {answer.name}`")


def _show_front(answer: Confirmation, dataset: str) -> None:
    """Print the confirmed front of a study, or the joint one of a data set, where a setting is called ``STUDY#21``."""
    points, undefended, gap = answer.on(dataset), answer.baseline[dataset], answer.gap[dataset]
    title, front = (f"{answer.name} on {dataset}", "joint front") if answer.joint else (answer.name, "front")
    on_front = [p for p in points if p.on_front]
    stay = sum(p.confirmed for p in on_front)
    joined = sum(p.confirmed for p in points) - stay
    join = f", {joined} {'neighbor joins' if joined == 1 else 'neighbors join'} them" if joined else ""
    emit(f"{title}: {stay} of {len(on_front)} points of the {front} stay{join}, on {len(answer.seeds)} fresh seeds")
    names = [f"{p.study}#{p.number}" if answer.joint else str(p.number) for p in points]
    rows = [_row(p, name) for p, name in zip(points, names, strict=True)]
    if undefended.outcome == "ok":
        utility = _span(undefended.utility, undefended.utility_interval)
        leakage = _span(undefended.leakage, undefended.leakage_interval)
        rows.append(["-", "no defense", undefended.seeds, "", utility, "", leakage, ""])
    emit_table(("trial", "setting", "seeds", "stays", "utility", "searched", "leakage", "searched"), rows)
    for line in answer.lines:
        if line.dataset == dataset and len(line.numbers) > 1:
            varies = ", ".join(f"{name} {' to '.join(cell(v) for v in of)}" for name, of in line.params.items())
            trials = ", ".join(map(str, line.points if answer.joint else line.numbers))
            emit(f"cannot be told apart: trials {trials}{f' ({varies})' if varies else ''}")
    if gap:
        better, less = ("better" if gap["utility"] >= 0 else "worse"), ("less" if gap["leakage"] >= 0 else "more")
        looked = f"{abs(gap['utility']):.4f} {better} in utility and {abs(gap['leakage']):.3f} {less} leaky"
        emit(f"the search's front looked {looked}, on average")
    for point, name in zip(points, names, strict=True):
        if (found := point.tuned) is not None:
            settings = f" {cell(found.params)}" if found.params else ""
            leaks = f"{sum(found.advantages) / len(found.advantages):.3f}, others {point.leakage_untuned:.3f}"
            emit(f"tuned against trial {name}: {found.attack}{settings} leaks {leaks} ({found.tried} tried)")


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


def _span(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None or interval is None:
        return "-"
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"

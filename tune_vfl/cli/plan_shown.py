"""The screen of a campaign's plan: new, finished and skipped studies, with reasons and durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.analysis.formatting import count, listed
from tune_vfl.cli.output import emit, emit_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.records.campaigns import PlannedCampaign, Skipped
    from tune_vfl.service.estimates import Progress

_NAMED = 6
"""How many that are left out for one reason are named; ``validate --json`` names them all."""


def show_campaign(
    plan: PlannedCampaign, studies: Mapping[str, Mapping[str, Any]], progress: Mapping[str, Progress], minutes: float
) -> None:
    """Print a campaign's plan.

    Args:
        plan: the campaign.
        studies: each study as ``validate --json`` describes it, by name.
        progress: how far each is.
        minutes: what the trainings take that are still to be run.
    """
    done = sum(p.done for p in progress.values())
    emit(
        f"campaign {plan.name}: {count(len(plan.studies), 'study', 'studies')}, {plan.trials} trials, {done} of them "
        f"done; {plan.studies[0].spec.budget.seeds} seeds"
    )
    one = plan.studies[0].cell.federation.pass_name
    emit(
        f"trainings alone: about {_minutes(minutes)} on this machine, from one {one} timed here; "
        "attacks and floors come on top"
    )
    for dataset in dict.fromkeys(s.cell.dataset.name for s in plan.studies):
        first = next(s for s in plan.studies if s.cell.dataset.name == dataset)
        data, cell = studies[first.name]["data"], first.cell
        emit(
            f"{dataset}: {data['rows']} rows, {data['reserve']} set aside for confirm; model {cell.model.name}, "
            f"{cell.setting}, {count(cell.training.epochs, cell.federation.pass_name)}; {cell.metric}"
        )
        for note in data["notes"]:
            emit(f"note: {note}")
    _studies(plan, studies, progress)
    if plan.skipped:
        emit("left out:")
        emit("\n".join(f"  {line}" for line in left_out(plan.skipped)))


def _studies(plan: PlannedCampaign, studies: Mapping[str, Mapping[str, Any]], progress: Mapping[str, Progress]) -> None:
    several = len({s.cell.dataset.name for s in plan.studies}) > 1
    rows = []
    for study in plan.studies:
        about, how_far = studies[study.name]["cost"], progress[study.name]
        size = "∞" if about["space_size"] is None else about["space_size"]
        name = f"{study.cell.dataset.name} {study.cell.defense}" if several else study.cell.defense
        attacks = len(study.cell.attacks)
        searched = ", ".join(about["space"]) or "nothing"
        rows.append([name, how_far.new, how_far.done, len(study.space.published), attacks, searched, size])
    emit_table(("defense", "new", "done", "published", "attacks", "searches", "settings"), rows)


def left_out(skipped: tuple[Skipped, ...]) -> list[str]:
    """Return the impossible pairs of a spec, one line per reason; of many pairs their number."""
    by_reason: dict[str, list[str]] = {}
    for left in skipped:
        what = left.study if left.attack is None else f"attack {left.attack} in {left.study}"
        by_reason.setdefault(_general("; ".join(left.problems), left.study), []).append(what)
    return [
        f"{listed(names) if len(names) <= _NAMED else count(len(names), 'combination')}: {reason}"
        for reason, names in by_reason.items()
    ]


def _general(reason: str, study: str) -> str:
    """Return a reason without the name of the defense in it, so that one reason of several defenses is one line."""
    defense = study.rpartition("-")[2]
    return reason.replace(f"defense {defense!r} is", "the defense is")


def _minutes(minutes: float) -> str:
    if minutes < 1:
        return count(round(60 * minutes), "second")
    return count(round(minutes), "minute") if minutes < 90 else f"{minutes / 60:.1f} hours"

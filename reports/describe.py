"""Builder of two figures for a data set, the joint frontier and the growth of its hypervolume, before any drawing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reports.figure import SHARE, Axis, Figure, Label, Mark, Marks, Polyline, Span, room, staircase, within
from reports.looks import PLAIN
from tune_vfl.analysis import formatting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.naming import Names
    from tune_vfl.analysis.decision import Decision
    from tune_vfl.analysis.joint_front import Joint
    from tune_vfl.analysis.setting import MeasuredModel, Setting
    from tune_vfl.evaluation.certainty import Certainty
    from tune_vfl.outcome import Outcome

_MOST_LABELS = 20


def frontier(found: Joint, decision: Decision, names: Names, title: str = "") -> Figure:
    """Build the figure of a data set's joint frontier.

    Args:
        found: its studies.
        decision: the decision, with the setting to mark.
        names: the names of the studies.
        title: the printed figure's title; by default the defense, or the number of defenses, and the data set.
    """
    metric, front = formatting.metric(found.metric), sorted(found.front, key=lambda p: (p.objectives[1], p.name))
    marked = decision.marked
    chosen = None if marked is None else found.point(marked.study, marked.number)
    x, y, beyond = _view(found, metric)
    only = names.called[found.parts[0].name] if len(found.parts) == 1 else f"{len(found.parts)} defenses"
    whole = title or f"{only} on {found.dataset}"
    steps = Polyline("the joint front", "front", staircase([p.objectives[::-1] for p in front], x[1]))
    lines = [*_references(found, y), *([steps] if front else [])]
    return Figure(
        name="frontier",
        title=whole,
        note=f"{len(front)} of {formatting.count(len(found.points), 'setting')} on the front; bars: {bars_of(found)}",
        alt=_alt(found, front, chosen, names, mark=decision.mark, title=whole),
        x=Axis("leakage: advantage of the worst attack (less is better)", x, SHARE),
        y=Axis(f"{metric} (more is better)", y, SHARE),
        groups=tuple(_groups(found, metric, chosen, names)),
        lines=tuple(lines),
        labels=tuple(_labels(found, front, chosen, names, mark=decision.mark, lines=lines, right=x[1])),
        beyond=beyond,
    )


def bars_of(found: Joint) -> str:
    """Return the meaning of the error bars around points."""
    if any(p.sure.utility_interval is not None for p in found.points):
        return "90% intervals"
    return f"std of {formatting.count(len(found.parts[0].cell.seeds), 'seed')}"


def spans(outcome: Outcome, sure: Certainty | None) -> tuple[Span, Span]:
    """Return the ends of the error bars: 90% intervals, else one standard deviation to either side."""
    utility, leakage = outcome.objectives
    wide, high = outcome.utility.std if outcome.utility else 0.0, outcome.leakage_std or 0.0
    known = (sure.utility_interval, sure.leakage_interval) if sure else (None, None)
    return (within(known[0] or (utility - wide, utility + wide)), within(known[1] or (leakage - high, leakage + high)))


def _view(found: Joint, metric: str) -> tuple[Span, Span, tuple[str, ...]]:
    """Return the initial limits of leakage and utility, and sentences on points below them.

    All points are in view, unless the important ones would get less than half of the height; then the view ends below
    the front, the undefended model and, if it is near, the label party's own model.
    """
    matter = [spans(p.trial.outcome, p.sure) for p in found.front]
    if found.undefended is not None:
        matter.append(spans(found.undefended.outcome, found.undefended.sure))
    if not matter:
        return SHARE, SHARE, ()
    utilities = [p.objectives[0] for p in found.points]
    top = max([*utilities, *(u[1] for u, _ in matter)])
    core, least = min(u[0] for u, _ in matter), min([*utilities, 1.0])
    floors = [f for f in (found.alone.utility if found.alone else None, found.reference[0]) if f is not None]
    for floor in floors:
        if floor < core and core - floor <= (top - core) / 2:
            core = floor
    crowded = top - core < (top - least) / 2
    y = room([core if crowded else min(core, least), top], SHARE)
    below = sum(u < y[0] for u in utilities)
    beyond = [f"{formatting.count(below, 'setting lies', 'settings lie')} below this view"] if below else []
    alone = [] if found.alone is None else [(f"{found.alone.who} alone", found.alone.utility)]
    named = [*alone, ("the best guess", found.reference[0])]
    beyond += [f"{name}, {u:.3g}, lies below this view" for name, u in named if u < y[0]]
    x = max([0.1, *(p.objectives[1] for p in found.points), *(high for _, (_, high) in matter)])
    return (0.0, min(1.0, 1.03 * x)), y, tuple(beyond)


def _references(found: Joint, y: Span) -> Iterator[Polyline]:
    """Yield the lines of the label party alone and of the best guess, where they are in view."""
    if found.alone is not None and y[0] <= found.alone.utility <= y[1]:
        own = found.alone.utility
        yield Polyline(f"{found.alone.who} alone, {own:.3g}", "alone", ((0.0, own), (1.0, own)))
    guess = found.reference[0]
    if y[0] <= guess <= y[1]:
        yield Polyline(f"the best guess, {guess:.3g}", "guess", ((0.0, guess), (1.0, guess)))


def _groups(found: Joint, metric: str, chosen: Setting | None, names: Names) -> Iterator[Marks]:
    """Yield the marks, the most important last, so that they are drawn on top."""
    rest: dict[str, list[Mark]] = {part.name: [] for part in found.parts}
    best: dict[str, list[Mark]] = {part.name: [] for part in found.parts}
    for point in found.points:
        mark = Mark(*point.objectives[::-1], says=_tip(point, metric, names), key=point.name)
        if point.on_front:
            up, across = spans(point.trial.outcome, point.sure)
            best[point.study].append(mark._replace(x_bar=across, y_bar=up))
        else:
            rest[point.study].append(mark)
    looks_of = {study: names.looks[name] for study, name in names.called.items()}
    for study, marks in sorted(rest.items(), key=lambda item: looks_of[item[0]].color is not None):
        if marks:
            yield Marks(
                names.called[study],
                "muted" if looks_of[study].color is None else "behind",
                looks_of[study],
                tuple(marks),
            )
    for study, marks in best.items():
        if marks:
            yield Marks(names.called[study], "front", looks_of[study], tuple(marks))
    if found.undefended is not None:
        yield Marks("undefended", "undefended", PLAIN, (_undefended(found.undefended, metric),))
    if chosen is not None:
        yield Marks(names.called[chosen.study], "chosen", looks_of[chosen.study], (Mark(*chosen.objectives[::-1]),))


def _undefended(model: MeasuredModel, metric: str) -> Mark:
    up, across = spans(model.outcome, model.sure)
    utility, leakage = model.objectives
    says = (
        "undefended model",
        f"{metric} {formatting.span(utility, up)}",
        f"leakage {formatting.span(leakage, across)}",
    )
    return Mark(leakage, utility, across, up, says)


def _tip(point: Setting, metric: str, names: Names) -> tuple[str, ...]:
    """Return the lines of the tooltip."""
    outcome = point.trial.outcome
    (utility, leakage), (up, across) = outcome.objectives, spans(outcome, point.sure)
    worst = outcome.strongest
    lines = [
        names.setting(point),
        f"{metric} {formatting.span(utility, up)}",
        f"leakage {formatting.span(leakage, across)}" + (f", by {worst}" if worst else ""),
        "on the front" if point.on_front else "not on the front",
    ]
    return (*lines, f"attack too weak: {', '.join(point.weak)}") if point.weak else tuple(lines)


def _labels(
    found: Joint,
    front: Sequence[Setting],
    chosen: Setting | None,
    names: Names,
    *,
    mark: str,
    lines: Sequence[Polyline],
    right: float,
) -> Iterator[Label]:
    if chosen is not None:
        utility, leakage = chosen.objectives
        yield Label(leakage, utility, f"{mark}: {names.setting(chosen)}", "strong")
    if found.undefended is not None:
        utility, leakage = found.undefended.objectives
        yield Label(leakage, utility, "undefended", "strong")
    for line in lines:
        if line.kind in ("alone", "guess"):
            yield Label(right, line.corners[0][1], line.name, "line")
    seen: set[str] = set()
    for point in _ends_first(front):
        utility, leakage = point.objectives
        named = len(found.parts) > 1 and point.study not in seen
        seen.add(point.study)
        if point is not chosen:
            yield Label(leakage, utility, names.setting(point) if named else names.short(point), "plain")


def _ends_first(front: Sequence[Setting]) -> list[Setting]:
    """Return the front's two ends, then evenly spread points between them, up to the number of labels in a figure."""
    if len(front) < 3:
        return list(front)
    stride = math.ceil((len(front) - 2) / _MOST_LABELS)
    return [front[0], front[-1], *front[1:-1:stride]]


def _alt(found: Joint, front: Sequence[Setting], chosen: Setting | None, names: Names, *, mark: str, title: str) -> str:
    """Return the alternative text of the figure."""
    metric = formatting.metric(found.metric)
    if not front:
        return f"{title}: no setting has come to a result yet."
    (low, least), (high, most) = front[0].objectives, front[-1].objectives
    defenses = formatting.listed(list(dict.fromkeys(names.called[p.study] for p in front)))
    ends = f"from {metric} {low:.3f} at leakage {least:.3f}"
    ends += f" to {metric} {high:.3f} at leakage {most:.3f}" if len(front) > 1 else ""
    says = f"{title}, leakage across and {metric} up. Of {formatting.count(len(found.points), 'setting')} "
    says += f"{len(front)} are on the front, of {defenses}, {ends}."
    if chosen is not None:
        utility, leakage = chosen.objectives
        says += f" {mark.capitalize()}: {names.setting(chosen)}, {metric} {utility:.3f} at leakage {leakage:.3f}."
    return says


def growth(found: Joint) -> Figure:
    """Build the figure of the joint front's hypervolume over finished trials."""
    areas = [step.hypervolume for step in found.history]
    corners: list[tuple[float, float]] = []
    for k, area in enumerate(areas, start=1):
        corners += [(float(k), corners[-1][1] if corners else 0.0), (float(k), area)]
    last = areas[-1] if areas else 0.0
    late = next((k for k, area in enumerate(areas, start=1) if area >= 0.99 * last), 0)
    return Figure(
        name="hypervolume",
        title=f"hypervolume on {found.dataset}",
        note=f"{last:.3f} after {formatting.count(len(areas), 'trial')}",
        alt=f"Hypervolume of the joint front by trial: {last:.3f} after {formatting.count(len(areas), 'trial')}; "
        f"99% of it was there after {formatting.count(late, 'trial')}.",
        x=Axis("trials finished", (0.0, float(max(1, len(areas)))), (0.0, float(max(1, len(areas))))),
        y=Axis("hypervolume", (0.0, min(1.0, max(0.01, 1.06 * last))), SHARE),
        lines=(Polyline("hypervolume", "growth", tuple(corners)),) if corners else (),
    )

"""The confirmation section of a report: the search's numbers beside those of fresh seeds, and the confirmed front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.analysis import formatting
from tune_vfl.analysis.columns import SPANS, texts, values
from tune_vfl.machine.csv_text import frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tune_vfl.records.answers import Confirmation, Line
    from tune_vfl.records.confirmations import ConfirmedPoint
    from tune_vfl.records.studies import StudyRecord


_NUMBERS = ("utility", "leakage")


class ConfirmedSection(NamedTuple):
    """The texts on one study's confirmation.

    Attributes:
        study: its name.
        says: the result in a sentence or two.
        rows: a mapping per setting, texts by column, by falling utility; ``goes`` marks one that left the front.
        undefended: the row of the undefended model; None without numbers.
        lines: sentences on groups of settings without a significant difference.
        cautions: limits of the result.
    """

    study: str
    says: str
    rows: list[dict[str, Any]]
    undefended: dict[str, Any] | None
    lines: list[str]
    cautions: list[str]


def sections(records: Sequence[StudyRecord]) -> list[ConfirmedSection]:
    """Return a section for each confirmed study."""
    return [_section(record, record.confirmation) for record in records if record.confirmation is not None]


def _section(record: StudyRecord, found: Confirmation) -> ConfirmedSection:
    fixed, model = set(record.cell.fixed), found.undefended
    return ConfirmedSection(
        study=record.name,
        says=" ".join([_stays(found), *_gap(found, formatting.metric(record.cell.metric))]),
        rows=[_row(p, [n for n in p.params if n not in fixed]) for p in found.points],
        undefended={"seeds": model.seeds, **texts(model, _NUMBERS)} if model.outcome == "ok" else None,
        lines=[_apart(line) for line in found.lines if len(line.numbers) > 1],
        cautions=[formatting.sentence(check.says) for check in found.checks if not check.ok],
    )


def again(record: StudyRecord, number: int) -> str:
    """Return a sentence on one setting's confirmation; empty where it took part in none."""
    points = record.confirmation.points if record.confirmation else ()
    point = next((p for p in points if p.number == number), None)
    if point is None:
        return ""
    if point.outcome != "ok":
        return f"Measured again with fresh seeds it ended as {point.outcome}: {point.reason}."
    fresh = texts(point, _NUMBERS)
    found = f"{formatting.metric(record.cell.metric)} {fresh['utility']} and leakage {fresh['leakage']}"
    goes = "" if point.confirmed else " It does not stay on the front: choose one that does."
    return f"On fresh seeds it has {found}.{goes}"


def _stays(found: Confirmation) -> str:
    front = [p for p in found.points if p.on_front]
    stay = sum(p.confirmed for p in front)
    came = sum(p.confirmed for p in found.points if not p.on_front)
    joined = f", and {formatting.count(came, 'neighbor joins', 'neighbors join')} them" if came else ""
    (reserve,) = found.reserve.values()
    where = f"{formatting.count(reserve, 'row')} that no search has seen" if reserve else "the search's own rows"
    stays = (
        f"{stay} of {formatting.count(len(front), 'point')} of the front stay"
        if front
        else "No point of its front took part"
    )
    if not found.points:
        return f"{stays}."
    return (
        f"{stays}{joined}: measured again with {formatting.count(len(found.seeds), 'fresh seed')}, utility on {where}."
    )


def _gap(found: Confirmation, metric: str) -> list[str]:
    (gap,) = found.gap.values()
    if not gap:
        return []
    utility, leakage = gap["utility"], gap["leakage"]
    better, less = ("better" if utility >= 0 else "worse"), ("less" if leakage >= 0 else "more")
    looked = f"{abs(utility):.3f} {metric} {better} than that, and {abs(leakage):.3f} {less} leaky"
    return [f"On average the search's front looked {looked}."]


def _row(point: ConfirmedPoint, moved: Sequence[str]) -> dict[str, Any]:
    return {
        "number": point.number,
        "setting": formatting.setting(point.params, moved),
        "seeds": point.seeds,
        "goes": not point.confirmed,
        "on_front": point.on_front,
        "stays": point.outcome if point.stays is None else f"{point.stays:.2f}",
        **{f"searched_{name}": formatting.score(value) for name, value in point.searched.items()},
        **texts(point, _NUMBERS),
        "attack": _attack(point),
    }


def _attack(point: ConfirmedPoint) -> str:
    """Name the strongest attack, and if it was tuned, the advantage of the others."""
    found, untuned = point.tuned, point.leakage_untuned
    if found is None or point.leakage == untuned or untuned is None:
        return point.attack
    return f"{found.attack}, tuned (others {formatting.score(untuned)})"


def _apart(line: Line) -> str:
    params = ", ".join(f"{name} {' to '.join(formatting.number(v) for v in vs)}" for name, vs in line.params.items())
    utility, leakage = (" to ".join(map(formatting.score, ends)) for ends in (line.utility, line.leakage))
    numbers = formatting.listed([str(n) for n in line.numbers])
    return f"Trials {numbers} cannot be told apart ({params}): utility {utility}, leakage {leakage}."


_FILE = (
    *("study", "number", "defense.*", "on_front", "confirmed", "stays", "seeds"),
    *SPANS,
    *("leakage_upper_90", "leakage_worst_seed", "searched.*"),
)


def confirmed_frame(records: Sequence[StudyRecord]) -> pd.DataFrame:
    """Return a row per setting that took part in a confirmation, by falling utility within a study.

    Here ``utility`` and ``leakage`` are of fresh seeds, ``searched_utility`` and ``searched_leakage`` of the search.
    """
    return frame_of(
        values(point, _FILE, study=record.name)
        for record in records
        for point in (record.confirmation.points if record.confirmation else ())
    )

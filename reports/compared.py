"""Comparison tables of all defenses on a data set, as texts for the page and as frames for files."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tune_vfl.analysis import formatting
from tune_vfl.analysis.alternatives import rivals
from tune_vfl.analysis.columns import SPANS, texts, titles, values
from tune_vfl.analysis.describer import Describer
from tune_vfl.machine.csv_text import frame_of
from tune_vfl.outcome import strongest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from reports.gathered import Gathered
    from tune_vfl.analysis.rankings import Ranking


_NUMBER = re.compile(r"-?\d[\d.,]*(?:e[-+]?\d+)?")
_NUMBERS = ("utility", "gain_kept", "leakage", "strongest_attack")
_FILE = ("dataset", "study", "defense", "number", "defense.*", "recommended", *SPANS, "chance", "confirmed", "attack.*")


class PageRow(NamedTuple):
    """Texts by column; ``kind`` is the style: ``chosen``, ``reference`` or empty."""

    cells: tuple[str, ...]
    kind: str = ""


class PageTable(NamedTuple):
    """A table of the page, and the frame of its files.

    Attributes:
        name: the files' name.
        head: titles of the columns; a trailing space marks a column of texts, the others are numbers.
        rows: texts; ``heat``: the shade of each cell by row and column, 0 to 1; empty without shades.
        note: a reading aid.
        frame: the same in full precision.
    """

    name: str
    head: tuple[str, ...]
    rows: tuple[PageRow, ...]
    note: str
    frame: pd.DataFrame
    heat: tuple[tuple[float, ...], ...] = ()


def front_table(data: Gathered) -> PageTable:
    """Return the joint front by rising leakage, under the undefended model and the label party alone."""
    found, names = data.found, data.names
    chosen, mark = data.decision.marked, data.decision.mark
    lone = len(found.parts) == 1
    rows = list(_reference_rows(data))
    records: list[dict[str, Any]] = []
    for point in sorted(found.front, key=lambda p: (p.leakage, p.name)):
        is_chosen = chosen is not None and (chosen.study, chosen.number) == (point.study, point.number)
        what = formatting.setting(point.params, names.moved[point.study])
        setting = what if lone else f"{names.called[point.study]} {what}"
        marks = [m for m, holds in ((mark, is_chosen), ("confirmed", point.confirmed)) if holds]
        cells = (setting, *texts(point, (*_NUMBERS, "chance")).values(), ", ".join(marks), point.name)
        rows.append(PageRow(cells, "chosen" if is_chosen else ""))
        records.append(values(point, _FILE, recommended=is_chosen and mark == "recommended"))
    head: tuple[str, ...]
    head = ("setting ", *titles((*_NUMBERS, "chance"), formatting.metric(found.metric)), " ", "--select ")
    who = data.found.alone.who if data.found.alone else "the label party"
    note = (
        "Means over seeds; in parentheses 90% intervals. Gain kept: the share of what the federation adds to what "
        f"{who} reaches alone. Leakage: the largest advantage of all attacks over the best guess that needs no "
        "federation. On the front: the chance that nothing else is better in both."
    )
    if not any(row.cells[6] for row in rows):  # no marked and no confirmed setting
        head, rows = head[:6] + head[7:], [PageRow(row.cells[:6] + row.cells[7:], row.kind) for row in rows]
    return PageTable("front", head, tuple(rows), note, frame_of(records))


def _reference_rows(data: Gathered) -> Iterator[PageRow]:
    found = data.found
    if found.undefended is not None:
        yield PageRow(("undefended", *texts(found.undefended, _NUMBERS).values(), "", "", ""), "reference")
    if found.alone is not None:
        own = formatting.span(found.alone.utility, found.alone.interval)
        yield PageRow((f"{found.alone.who} alone", own, "0%", "–", "", "", "", ""), "reference")


class Ranked(NamedTuple):
    """A ranking below a cap of leakage: a table of the defenses with a setting there, a sentence on those without."""

    cap: float
    table: PageTable
    rest: str


def ranked(data: Gathered) -> list[Ranked]:
    """Return a table for each cap of leakage, the most useful defense first."""
    return [_ranked(data, ranking) for ranking in data.rankings]


def _ranked(data: Gathered, ranking: Ranking) -> Ranked:
    rows = []
    for place, rank in enumerate((r for r in ranking.rows if r.point is not None), start=1):
        point = rank.point
        assert point is not None  # noqa: S101 - of those that have one
        utility = formatting.span(rank.utility, rank.utility_interval)
        bound = formatting.score(rank.leakage_upper, digits=2)
        rows.append(PageRow((str(place), data.names.setting(point), utility, bound, f"{rank.best:.0%}")))
    records = [
        {
            "dataset": data.found.dataset,
            "cap": ranking.cap,
            "defense": rank.defense,
            "study": rank.point and rank.point.study,
            "number": rank.point and rank.point.number,
            **values(rank, ("utility", "utility_low", "utility_high")),
            "leakage_upper": rank.leakage_upper,
            "best": rank.best,
            "least": rank.least,
        }
        for rank in ranking.rows
    ]
    without = [
        r.defense + (f" ({formatting.score(r.least, digits=2)})" if r.least is not None else "")
        for r in ranking.rows
        if r.point is None
    ]
    rest = (
        f"None of their settings surely leaks so little (in parentheses the least bound): {formatting.listed(without)}."
    )
    head = ("", "setting ", formatting.metric(data.found.metric), "leakage under", "best")
    return Ranked(ranking.cap, PageTable("ranking", head, tuple(rows), "", frame_of(records)), rest if without else "")


def attack_table(data: Gathered) -> PageTable:
    """Return every attack's advantage in each defense's best setting, shaded by it.

    That is a confirmed setting where there is one, else the best compromise. In the frame ``share`` is the share of the
    defense's settings in which the attack finds most.
    """
    found, describer = data.found, Describer(data.found)
    attacks = list(dict.fromkeys(attack.name for part in found.parts for attack in part.cell.attacks))
    rows, heat, records = [], [], []
    for defense in found.defenses:
        settings = found.of(defense)
        if not settings:
            continue
        here = np.asarray([point.defense == defense for point in found.points])
        point = found.points[rivals(describer, here, by_utility=False)[0]]
        scores, attackers = point.outcome.attacks, point.outcome.attackers
        leading = Counter(strongest_of(p.outcome.attacks) for p in settings if p.outcome.attacks)
        cells, shades = [], []
        for attack in attacks:
            score = scores.get(attack)
            if score is None:
                cells.append(formatting.NOT_NEEDED if attack in point.outcome.not_needed else "–")
                shades.append(0.0)
                continue
            leads = strongest_of(scores) == attack
            weak, mark = " (weak)" * score.weak_attack, " ◂" * (leads and score.advantage > 0)
            cells.append(f"{score.advantage:.2f}{weak}{mark}")
            shades.append(score.advantage)
            by = strongest_of({name: one for name, one in attackers.items() if name.partition("/")[0] == attack})
            low, high = found.settings.advantage_interval(point.place, by) or (None, None)
            known = {"dataset": found.dataset, "defense": defense, "attack": attack, "advantage": score.advantage}
            share = {"worst": leads, "share": leading[attack] / len(settings), "weak": score.weak_attack}
            records.append({**known, "low": low, "high": high, **share})
        setting = formatting.setting(point.params, data.names.moved[point.study])
        rows.append(PageRow((defense, setting, *cells)))
        heat.append((0.0, 0.0, *shades))
    note = "Advantage in each defense's best setting, 0 to 1; ◂ marks the strongest attack, (weak) one that finds less "
    note += "there than on a model that was never trained. Not needed: others had found nearly all with every seed."
    head = ("defense ", "best setting ", *attacks)
    return PageTable("worst_attacks", head, tuple(rows), note, frame_of(records), tuple(heat))


def cost_table(data: Gathered) -> PageTable:
    """Return each study's cost: its training's CPU over the undefended one's, and seconds."""
    rows, records = [], []
    for part in data.found.parts:
        ended = [t.outcome.seconds for t in part.ok]
        train, attack = (
            sum(took) / len(took) if (took := [s[kind] for s in ended if kind in s]) else None
            for kind in ("train", "attack")
        )
        minutes = sum((t.finished - t.started).total_seconds() for t in part.trials) / 60
        name = data.names.called[part.name]
        counted = len(part.counted)
        times = "–" if part.cost is None else f"{part.cost:.2f}"
        seconds = (formatting.score(train, digits=1), formatting.score(attack, digits=1))
        rows.append(PageRow((name, times, str(counted), *seconds, f"{minutes:.1f}")))
        known = {"dataset": data.found.dataset, "study": part.name, "defense": part.cell.defense, "cost": part.cost}
        records.append(
            {**known, "trials": counted, "train_seconds": train, "attack_seconds": attack, "minutes": minutes}
        )
    note = (
        "Cost: the CPU of a training over that of the undefended one, measured alone; – where it was not measured. "
        "Seconds: of a mean trial with all its seeds. Minutes: of all trials, which may have run side by side."
    )
    head = ("defense ", "cost", "trials", "training s", "attacks s", "minutes")
    return PageTable("cost", head, tuple(rows), note, frame_of(records))


def failure_table(data: Gathered) -> PageTable:
    """Return failed trials by reason, the most frequent first; preempted ones do not count.

    Reasons that differ in their numbers alone are one, shown as it came first.
    """
    where: dict[tuple[str, str], Counter[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for part in data.found.parts:
        for outcome in (trial.outcome for trial in part.counted):
            if outcome.outcome != "ok":
                reason = (outcome.reason.splitlines() or [""])[0]
                key = str(outcome.outcome), _NUMBER.sub("#", reason)
                where.setdefault(key, Counter())[part.name] += 1
                first.setdefault(key, reason)
    rows, records = [], []
    for key in sorted(where, key=lambda key: (-where[key].total(), key[0], first[key])):
        ended, reason, studies = key[0], first[key], where[key]
        names = ", ".join(f"{data.names.called[s]} {n}" for s, n in studies.items())
        rows.append(PageRow((ended, str(studies.total()), names, reason)))
        known = {"dataset": data.found.dataset, "outcome": ended, "reason": reason}
        records += [{**known, "study": s, "trials": n} for s, n in studies.items()]
    return PageTable("failures", ("outcome ", "trials", "where ", "reason "), tuple(rows), "", frame_of(records))


def history_frame(data: Gathered) -> pd.DataFrame:
    """Return the joint hypervolume after each valid trial."""
    steps = [
        {"dataset": data.found.dataset, "trial": k, "study": s.study, "number": s.number, "hypervolume": s.hypervolume}
        for k, s in enumerate(data.found.history, start=1)
    ]
    return frame_of(steps)

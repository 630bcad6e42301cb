"""The board of defenses: each data set's entries as one joint front, with a row or two for each defense."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reports.describe import frontier
from reports.gathered import gather
from tune_vfl.analysis.columns import values
from tune_vfl.analysis.compromise import compromise_of
from tune_vfl.analysis.formatting import count
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.analysis.reliability import scale_of
from tune_vfl.machine.csv_text import frame_of, to_csv
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.spaces.space import point_key
from tune_vfl.spec.cell import qualified

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from reports.figure import Figure
    from reports.gathered import Gathered
    from tune_vfl.analysis.setting import Setting
    from tune_vfl.records.board import Entry
    from tune_vfl.records.studies import StudyRecord

THOROUGH = "-thorough"
"""Ends the name of conditions under which a data set's settings are attacked by more; a column of its board."""


class BoardRow(NamedTuple):
    """One setting of one defense.

    Attributes:
        entry: the entry that it is of; ``point``: its numbers.
        source: where the setting was published; None for one that a search proposed.
        own: the largest advantage of the attacks by which the defense's paper measured it; None where none was run.
        thorough: the same setting under the attacks of the thorough conditions; None where they were not run.
    """

    entry: Entry
    point: Setting
    source: str | None
    own: float | None
    thorough: Setting | None


class Shelf(NamedTuple):
    """A data set's part of the board.

    Attributes:
        name: of its conditions; ``file``: theirs.
        data: its fresh entries as one campaign, with their joint front.
        figure: the front.
        rows: of each defense the best of the published settings, and of the search where another one is better.
        every: each measured setting.
        stale: entries of an earlier measure than the others, which are compared with nothing.
        lost: by defense, how settings ended that have no result.
    """

    name: str
    file: Path
    data: Gathered
    figure: Figure
    rows: tuple[BoardRow, ...]
    every: tuple[BoardRow, ...]
    stale: tuple[Entry, ...]
    lost: Mapping[str, tuple[str, ...]]


def shelves(entries: Mapping[Path, Sequence[Entry]]) -> Iterator[Shelf]:
    """Yield the parts of a board that have entries; those of a part's newest measure are compared.

    Args:
        entries: by the file of their conditions.
    """
    named = {path.stem: path for path in entries}
    for name, path in named.items():
        if not name.endswith(THOROUGH) and entries[path]:
            more = entries[named[name + THOROUGH]] if name + THOROUGH in named else ()
            newest = max(entry.measure for entry in entries[path])
            fresh, more = ([e for e in of if e.measure == newest] for of in (entries[path], more))
            yield _shelf(name, path, fresh, more, [e for e in entries[path] if e.measure < newest])


def _shelf(name: str, file: Path, fresh: Sequence[Entry], more: Sequence[Entry], stale: Sequence[Entry]) -> Shelf:
    studies = tuple(entry.record for entry in fresh)
    data = _gathered(name, studies)
    by_study = {entry.record.name: entry for entry in fresh}
    attacked = _gathered(name, [entry.record for entry in more]).found.points if more else ()
    thorough = {(point.defense, point_key(point.params)): point for point in attacked}
    every = tuple(_row(by_study[point.study], point, data, thorough) for point in data.found.points)
    figure = frontier(data.found, data.decision, data.names, title=f"{count(len(fresh), 'defense')} on {name}")
    return Shelf(
        name=name,
        file=file,
        data=data,
        figure=figure._replace(name=f"board-{name}"),
        rows=tuple(sorted(_shown(every), key=lambda row: (-row.point.chance, row.point.objectives[1]))),
        every=every,
        stale=tuple(stale),
        lost={
            study.cell.defense: lost
            for study in studies
            if (lost := tuple(f"{o.outcome}: {o.reason}" for t in study.counted if (o := t.outcome).outcome != "ok"))
        },
    )


def _gathered(name: str, studies: Sequence[StudyRecord]) -> Gathered:
    (data,) = gather(CampaignRecord(name, tuple(studies), sum(len(study.trials) for study in studies)))
    return data


def _row(entry: Entry, point: Setting, data: Gathered, thorough: Mapping[tuple[str, str], Setting]) -> BoardRow:
    attacks = point.outcome.attacks
    return BoardRow(
        entry=entry,
        point=point,
        source=entry.source_of(point.number),
        own=max((attacks[name].advantage for name in entry.paper_attacks if name in attacks), default=None),
        thorough=thorough.get((point.defense, point_key(point.params))),
    )


def _shown(every: Sequence[BoardRow]) -> Iterator[BoardRow]:
    """Yield of each defense the best compromise of its published settings, and its best one where that is another."""
    for study in dict.fromkeys(row.point.study for row in every):
        rows = {row.point.number: row for row in every if row.point.study == study}
        record = next(iter(rows.values())).entry.record
        published = [row for row in rows.values() if row.source is not None]
        place = compromise_of([row.point.trial.outcome for row in published], scale_of(record))
        if place is not None:
            yield published[place]
        best = Joint(record).knee
        if best is not None and rows[best.number].source is None:
            yield rows[best.number]


def csv_of(found: Sequence[Shelf]) -> str:
    """Return every setting of every entry as CSV."""
    return to_csv(frame_of(_record(shelf, row) for shelf in found for row in shelf.every))


_FILE = (
    *("conditions", "dataset", "defense", "setting", "published", "metric"),
    *("utility", "utility_low", "utility_high", "utility_undefended", "utility_alone", "gain_kept"),
    *("leakage", "leakage_low", "leakage_high", "leakage_undefended", "strongest_attack", "leakage_own", "own_attacks"),
    *("leakage_thorough", "leakage_thorough_low", "leakage_thorough_high", "strongest_thorough"),
    *("on_front", "chance", "confirmed", "utility_confirmed", "leakage_confirmed"),
    *("seeds", "epochs", "date", "measure", "program", "command"),
)


def _record(shelf: Shelf, row: BoardRow) -> dict[str, Any]:
    point, entry, joint = row.point, row.entry, shelf.data.found
    undefended = joint.undefended
    return values(
        point,
        _FILE,
        conditions=shelf.name,
        setting=", ".join(f"{qualified(name)}={value}" for name, value in point.params.items()),
        published=row.source,
        metric=joint.metric,
        utility_undefended=None if undefended is None else undefended.utility,
        utility_alone=None if joint.alone is None else joint.alone.utility,
        gain_kept=point.gain_kept,
        leakage_undefended=None if undefended is None else undefended.leakage,
        leakage_own=row.own,
        own_attacks=" ".join(own_attacks(row)),
        **_thorough(row.thorough),
        utility_confirmed=None if point.again is None else point.again.utility,
        leakage_confirmed=None if point.again is None else point.again.leakage,
        seeds=len(point.outcome.utility.values) if point.outcome.utility else None,
        epochs=entry.record.cell.training.epochs,
        date=entry.date,
        program=entry.program,
        command=entry.command,
    )


def _thorough(point: Setting | None) -> dict[str, Any]:
    """Return the columns of a setting under the attacks of the thorough conditions; None in each where it has none."""
    names = {
        "leakage_thorough": "leakage",
        "leakage_thorough_low": "leakage_low",
        "leakage_thorough_high": "leakage_high",
        "strongest_thorough": "strongest_attack",
    }
    found = {} if point is None else values(point, names.values())
    return {name: found.get(column) for name, column in names.items()}


def own_attacks(row: BoardRow) -> list[str]:
    """Return the attacks by which the defense's paper measured it, of those that were run."""
    return [name for name in row.entry.paper_attacks if name in row.point.trial.outcome.attacks]

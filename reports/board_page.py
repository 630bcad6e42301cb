"""The board as Markdown and as a self-contained page, from the same tables of texts."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

from reports.board import THOROUGH, csv_of, own_attacks, shelves
from reports.board_grid import FIRST, grid_of
from reports.board_sets import held_against, source_of, spelled
from reports.looks import COLORS, DARK
from reports.page import environment, own_text
from reports.printed import files_of
from reports.story import options
from tune_vfl.analysis import formatting
from tune_vfl.analysis.constraints import RUNGS
from tune_vfl.analysis.not_examined import checks_by_study
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import shortened
from tune_vfl.records.board import SUFFIX
from tune_vfl.spec.cell import MEASURE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from reports.board import BoardRow, Shelf
    from tune_vfl.analysis.setting import Setting
    from tune_vfl.records.board import Entry

GRID_NOTE = (
    "100% is what training together adds to a model of the label party alone. A cell is the share of it that a "
    "defense keeps where the leakage (0: attackers find no more than without the training, 1: every label) is surely "
    "at most {}: that of its most useful setting whose leakage is below the bound with {:.0%} confidence, as a "
    "decision would choose it. Empty: no setting does. –: not measured. *: a check of the search fails, as the data "
    "set's part says, and a decision recommends nothing."
)
NOTES = (
    "Leakage: the largest advantage of the attacks of `default` over what needs no federation.",
    "Gain kept: the share of what the federation adds to a model of the label party alone.",
    "Paper's attacks: the largest advantage of those by which the defense's paper measured it and that were run here.",
    "Thorough: the leakage by the attacks of `thorough`, which also take part in the training, where these were run.",
    "On the front: the chance that no other setting is better in both.",
    "In parentheses: 90% intervals.",
    "Setting: the best compromise of the published ones; where a search found a better one, that too, as searched.",
)


def board_files(entries: Mapping[Path, Sequence[Entry]]) -> dict[str, bytes]:
    """Return the files of a board by name: ``board.md``, ``board.csv``, ``board-page.html`` and the figures.

    Args:
        entries: by the file of their conditions.
    """
    found = list(shelves(entries))
    drawn = {name: content for shelf in found for name, content in files_of(shelf.figure).items()}
    figures = {name: content for name, content in drawn.items() if name.endswith(".svg")}
    texts = {"board.md": markdown(found), "board.csv": csv_of(found), "board-page.html": page(found, figures)}
    return {**{name: text.encode() for name, text in texts.items()}, **figures}


class SheetRow(NamedTuple):
    """A line of a data set's table: texts by column, and the files that they lead to."""

    cells: tuple[str, ...]
    links: tuple[str, ...] = ()
    on_front: bool = False


class Sheet(NamedTuple):
    """A data set's part of the page.

    Attributes:
        name: of the data set's conditions; ``file``: theirs; ``title``: as the field spells it.
        source: who made the data, and where they are had.
        says: the conditions in sentences.
        head: titles of the columns; a trailing space marks a column of texts.
        lines: of the table; ``apart``: sentences on what is not in it.
        image: the figure's file; ``alt``: its alternative text; ``note``: what is under it.
        commands: by defense, the search that measures it again.
    """

    name: str
    file: str
    title: str
    source: tuple[str, str]
    says: str
    head: tuple[str, ...]
    lines: tuple[SheetRow, ...]
    apart: tuple[str, ...]
    image: str
    alt: str
    note: str
    commands: tuple[tuple[str, str], ...]


def markdown(found: Sequence[Shelf]) -> str:
    """Return the board as Markdown, with links to entries and figures beside it."""
    grid = [SheetRow((row.defense, *(cell.text for cell in row.cells))) for row in grid_of(found)]
    head = ("defense ", *(_linked(spelled(shelf.name), f"#{shelf.name}") for shelf in found))
    beside = (
        "[A page of the same](board-page.html) in colors sorts it, [board.csv](board.csv) has every setting, and "
        "[board/README.md](../board/README.md) says how to enter a defense of your own. What a leakage says and does "
        "not: [for a data-protection officer](for-data-protection.md)."
    )
    notes = "\n".join(f"- {note}" for note in NOTES)
    asked = ["## What is kept, if little may leak", _kept_at(found, " / ".join(map(formatting.number, RUNGS)))]
    parts = ["# The board", _lead(found), beside, *asked, _table(head, grid), *_of_each(found), "## Columns", notes]
    return "\n\n".join(parts) + "\n"


def page(found: Sequence[Shelf], figures: Mapping[str, bytes]) -> str:
    """Return the board as one HTML page without external resources.

    Args:
        found: the data sets.
        figures: the SVG files by name.
    """
    from markupsafe import Markup

    images = {name: f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" for name, svg in figures.items()}
    template = environment().get_template("board.html.j2")
    return template.render(
        lead=_lead(found),
        notes=NOTES,
        caps=RUNGS,
        first=FIRST,
        kept=_kept_at(found, "the bound"),
        kept_rows=grid_of(found),
        held=[held_against(shelf) for shelf in found],
        papers={name: DEFENSES[name].reference for name in DEFENSES},
        sheets=[_sheet(shelf) for shelf in found],
        images=images,
        light=COLORS,
        dark=DARK,
        css=Markup(own_text("page.css")),  # noqa: S704 - our own file
    )


def _lead(found: Sequence[Shelf]) -> str:
    defenses = {row.point.defense for shelf in found for row in shelf.every}
    settings = sum(len(shelf.every) for shelf in found)
    days = sorted({row.entry.date for shelf in found for row in shelf.every})
    when = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "never"
    return (
        f"How much label leakage {formatting.count(len(defenses), 'defense leaves', 'defenses leave')}, and at what "
        f"cost, on {formatting.count(len(found), 'data set')}: {settings} settings, measured {when}. Each data set "
        "has one file of conditions, the same for all defenses."
    )


def _kept_at(found: Sequence[Shelf], bound: str) -> str:
    return GRID_NOTE.format(bound, min((shelf.data.found.settings.campaign.confidence for shelf in found), default=0.9))


def _sheet(shelf: Shelf) -> Sheet:
    found = shelf.data.found
    cells = [_cells(row, formatting.metric(found.metric)) for row in shelf.rows]
    titles = cells[0] if cells else ()
    kept = tuple(title for title in titles if any(texts[title] not in ("", "–") for texts in cells))
    folder = f"../{shelf.file.parent.name}/{shelf.name}"
    return Sheet(
        name=shelf.name,
        file=f"../{shelf.file.parent.name}/{shelf.file.name}",
        title=spelled(shelf.name),
        source=source_of(found.dataset),
        says=_conditions(shelf),
        head=kept,
        lines=tuple(
            SheetRow(
                tuple(texts[title] for title in kept),
                tuple(_links(row, folder).get(title, "") for title in kept),
                row.point.on_front,
            )
            for texts, row in zip(cells, shelf.rows, strict=True)
        ),
        apart=tuple(_apart(shelf)),
        image=f"{shelf.figure.name}.svg",
        alt=shelf.figure.alt,
        note=shelf.figure.note,
        commands=tuple({row.point.defense: row.entry.command for row in shelf.every}.items()),
    )


def _cells(row: BoardRow, metric: str) -> dict[str, str]:
    """Return the texts of a setting by the titles of the columns; a trailing space marks a column of texts."""
    point, more, again, fixed = row.point, row.thorough, row.point.again, row.entry.record.cell.fixed
    setting = formatting.setting({k: v for k, v in point.params.items() if k not in fixed or len(fixed) < 4})
    share, confirmed = point.gain_kept, ""
    if again is not None and again.utility is not None:
        leakage = "–" if again.leakage is None else formatting.short(again.leakage)
        numbers = f"{formatting.short(again.utility)} / {leakage}, {again.seeds} seeds"
        confirmed = numbers if again.confirmed else f"left the front: {numbers}"
    return {
        "defense ": point.defense,
        "setting ": setting if row.source is not None else f"{setting} (searched)",
        metric: formatting.short_span(point.utility, point.utility_interval),
        "gain kept": "–" if share is None else f"{share:.0%}" if share >= 0 else "none",
        "leakage": _leakage(point),
        "strongest attack ": point.outcome.strongest,
        "paper's attacks": "–" if row.own is None else f"{formatting.short(row.own)} ({', '.join(own_attacks(row))})",
        "thorough": "–" if more is None else f"{_leakage(more)} {more.outcome.strongest}",
        "on the front": f"{point.chance:.0%}",
        "confirmed ": confirmed,
    }


def _links(row: BoardRow, folder: str) -> dict[str, str]:
    """Return the files of a setting's entries, by the titles of the columns that lead to them."""
    file = f"{row.point.defense}{SUFFIX}"
    return {
        "defense ": f"{folder}/{file}",
        **({} if row.thorough is None else {"thorough": f"{folder}{THOROUGH}/{file}"}),
    }


def _leakage(point: Setting) -> str:
    return formatting.short_span(point.leakage, point.leakage_interval)


def _conditions(shelf: Shelf) -> str:
    found, study = shelf.data.found, shelf.data.found.parts[0]
    cell, metric = study.cell, formatting.metric(found.metric)
    facts = [
        options(cell.dataset),
        f"model {cell.model.name}, {cell.setting}",
        formatting.count(cell.training.epochs, cell.federation.pass_name),
        formatting.count(len(cell.seeds), "seed"),
        f"attackers know {cell.threat.labels_per_class or 'some'} labels of a class",
        f"attacks {', '.join(options(attack) for attack in study.spec.attacks)}",
        f"measure {study.measure}",
    ]
    told = ["; ".join(facts)]
    if found.undefended is not None:
        utility, leakage = map(formatting.score, found.undefended.objectives)
        told.append(f"Undefended: {metric} {utility}, leakage {leakage}")
    if found.alone is not None:
        told.append(
            f"{found.alone.who[:1].upper()}{found.alone.who[1:]} alone: {formatting.score(found.alone.utility)}"
        )
    return f"{'. '.join(told)}."


def _apart(shelf: Shelf) -> list[str]:
    checks = [check for of in checks_by_study(shelf.data.found).values() for check in of if not check.ok]
    # A check of fewer attacks says a part of what the same check of more attacks says.
    failing = {check.name: check.says for check in sorted(checks, key=lambda check: len(check.says))}
    told = [*map(formatting.sentence, failing.values()), *_stale(shelf)]
    lost = [f"{defense}: {shortened(why, 1)}" for defense, why in shelf.lost.items()]
    return [*told, *([f"Settings without a result: {'; '.join(lost)}."] if lost else [])]


def _stale(shelf: Shelf) -> Iterator[str]:
    measure = shelf.data.found.parts[0].measure
    if measure != MEASURE:
        yield f"Stale: measured under measure {measure}, and today's is {MEASURE}; search again from the conditions."
    if shelf.stale:
        older = [f"{entry.record.cell.defense} (measure {entry.measure}, {entry.date})" for entry in shelf.stale]
        yield f"Stale, and not compared: {formatting.listed(older)}."


def _of_each(found: Sequence[Shelf]) -> list[str]:
    texts = []
    for sheet in map(_sheet, found):
        lines = [SheetRow(tuple(map(_linked, line.cells, line.links))) for line in sheet.lines]
        made_by, address = sheet.source
        says = f"Data: {_linked(made_by, address)}. Conditions: [{sheet.name}.yaml]({sheet.file}). {sheet.says}"
        texts += [f"## {sheet.name}", says, *sheet.apart, f"![{sheet.alt}]({sheet.image})", _table(sheet.head, lines)]
    return texts


def _linked(text: str, file: str) -> str:
    return f"[{text}]({file})" if file else text


def _table(head: Sequence[str], lines: Sequence[SheetRow]) -> str:
    rule = ["---" if title.endswith(" ") else "---:" for title in head]
    rows = [[title.strip() for title in head], rule, *(line.cells for line in lines)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)

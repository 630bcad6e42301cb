"""The board's grid: what of a federation's gain each defense keeps on each data set while surely little leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.analysis import formatting
from tune_vfl.analysis.constraints import RUNGS
from tune_vfl.analysis.not_examined import checks_by_study, doubted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.board import Shelf
    from tune_vfl.analysis.setting import Setting

FIRST = RUNGS[-1]
"""The bound of the leakage that a page shows first; by it rows are in order."""


class GridCell(NamedTuple):
    """A defense on a data set.

    Attributes:
        dataset: name of the data set's conditions.
        measured: whether any setting was.
        trusted: whether all checks of the search succeed; else a decision recommends nothing there.
        settings: for each of :data:`RUNGS` the most useful setting whose leakage is surely at most that; None where
            none is, or where it is no more useful than what needs no federation.
    """

    dataset: str
    measured: bool
    trusted: bool
    settings: tuple[Setting | None, ...]

    @property
    def kept(self) -> tuple[float, ...]:
        """The share of the federation's gain that each of the settings keeps; 0 where there is none."""
        return tuple(_gain(setting) for setting in self.settings)

    @property
    def text(self) -> str:
        """The shares as a cell of Markdown; empty where nothing is kept."""
        if not self.measured:
            return "–"
        if not any(self.kept):
            return ""
        return " / ".join(f"{share:.0%}" if share else "0" for share in self.kept) + "*" * (not self.trusted)

    @property
    def called(self) -> tuple[str, ...]:
        """Each of the settings in words: ``drop=0.999 keeps 90% of the gain, at a leakage of .225 (.000 to .458)``."""
        return tuple(
            f"{formatting.setting(one.params)} keeps {_gain(one):.0%} of the gain, at a leakage of "
            f"{formatting.short_span(one.leakage, one.leakage_interval)}"
            if one is not None
            else ""
            for one in self.settings
        )


class GridRow(NamedTuple):
    """A defense on all data sets."""

    defense: str
    cells: tuple[GridCell, ...]

    @property
    def order(self) -> tuple[float, ...]:
        """A key that puts first the defense which keeps something on the most data sets, then the one that keeps more.

        What counts is the bound that a page shows first, then the smaller ones.
        """
        by_cap = [[cell.kept[place] for cell in self.cells] for place in reversed(range(len(RUNGS)))]
        return tuple(-value for kept in by_cap for value in (sum(map(bool, kept)), sum(kept)))


def grid_of(found: Sequence[Shelf]) -> list[GridRow]:
    """Return the rows of a board's grid, those first that keep something on the most data sets."""
    below = {
        (shelf.name, ranking.cap, row.defense): row.point
        for shelf in found
        for ranking in shelf.data.rankings
        for row in ranking.rows
    }
    failing = {(shelf.name, study) for shelf in found for study in doubted(checks_by_study(shelf.data.found))}
    studies = {(shelf.name, row.point.defense): row.point.study for shelf in found for row in shelf.every}

    def cell(name: str, defense: str) -> GridCell:
        study = studies.get((name, defense))
        settings = tuple(_useful(below.get((name, cap, defense))) for cap in RUNGS)
        return GridCell(name, study is not None, (name, study) not in failing, settings)

    defenses = dict.fromkeys(defense for _, defense in studies)
    rows = [GridRow(defense, tuple(cell(shelf.name, defense) for shelf in found)) for defense in defenses]
    return sorted(rows, key=lambda row: (row.order, row.defense))


def _useful(setting: Setting | None) -> Setting | None:
    return setting if setting is not None and not setting.undecided and _gain(setting) > 0 else None


def _gain(setting: Setting | None) -> float:
    return 0.0 if setting is None or setting.gain_kept is None else setting.gain_kept

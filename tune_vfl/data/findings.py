"""Suspicious columns: copies of the label, identifiers, dates, near-constant columns, too many values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from tune_vfl.data.base import ColumnKind
from tune_vfl.data.looks import Looks, Written
from tune_vfl.data.predictive_columns import THRESHOLD, chance
from tune_vfl.data.spellings import Spelt, spellings

SUSPECT = 0.5
"""From this far above chance on, of the way to 1, is a column known before the label? An AUC of .75 is."""
NEARLY = 0.995
"""From this share of rows with one value on, a column is nearly constant."""
MANY = 32
"""Categories with more values than this are many. By default that is also how many 0/1 columns a column becomes."""
# A score must also lie so many standard errors above chance: among 150 columns of noise, one goes far.
_ERRORS = 4

Oddity = Literal[
    "slips",
    "tells the label",
    "known before?",
    "identifier",
    "date",
    "decimal commas",
    "numbers as text",
    "spellings",
    "constant",
    "near-constant",
    "many values",
]
"""In the order in which they are told."""
_EXCLUDED: frozenset[Oddity] = frozenset({"tells the label", "identifier", "date", "constant", "near-constant"})
_ORDER: tuple[Oddity, ...] = get_args(Oddity)


@dataclass(frozen=True)
class ColumnFacts:
    """A column of a party's file.

    Attributes:
        name: its name in the file.
        kind: number, code (a category as one number) or category (as 0/1 columns).
        width: how many columns it became.
        missing: the share of rows without a value.
        alone: how well it predicts the label by itself, see :func:`tune_vfl.data.predictive_columns.scores_alone`; None
            where rows are too few.
        distinct: how many different values it has, missing ones left out.
        common: the share of rows with the most frequent value; missing counts as one.
        looks: the format of its values in the file.
        slips: the values that make categories of a column of numbers, with their rows.
        spelt: groups of categories that differ in spelling only, with their rows.
    """

    name: str
    kind: ColumnKind
    width: int
    missing: float
    alone: float | None
    distinct: int
    common: float
    looks: Looks = ""
    slips: str = ""
    spelt: tuple[Spelt, ...] = ()

    @property
    def spellings(self) -> str:
        """The first of these groups, and the number of the others."""
        more = f", and {len(self.spelt) - 1} more groups" if self.spelt[1:] else ""
        return f"{spellings(self.spelt[0])}{more}" if self.spelt else ""

    def seen_as(self, written: Written) -> ColumnFacts:
        """Return the facts with properties of the column in the file that its encoding hides."""
        return replace(
            self,
            distinct=written.distinct,
            common=written.common,
            looks=written.looks,
            slips=written.slips,
            spelt=written.spelt,
        )


@dataclass(frozen=True)
class Finding:
    """A suspicious property of a column.

    Attributes:
        column, party: which one.
        oddity: ``slips`` (texts that make categories of numbers), ``tells the label`` (a score above .98), ``known
            before?`` (above an AUC of .75), ``identifier``, ``date``, ``decimal commas``, ``numbers as text``,
            ``spellings`` (categories that differ in spelling only), ``constant``, ``near-constant``, ``many values``.
        score: its score alone.
        why: the finding and the remedy, in words.
        exclude: whether it belongs on the list of columns to leave out, without a further look.
    """

    column: str
    party: str
    oddity: Oddity
    score: float | None
    why: str
    exclude: bool


def findings(columns: Sequence[tuple[str, ColumnFacts]], num_classes: int, error: float) -> tuple[Finding, ...]:
    """Find suspicious columns.

    Args:
        columns: each with the name of its party.
        num_classes: K.
        error: the standard error of the score of a column that tells nothing.

    Returns:
        By kind, the greatest risk first; within a kind by score, the highest first. A column may have several.
    """
    found = [
        Finding(c.name, party, oddity, c.alone, _WHY[oddity].format(c=c), oddity in _EXCLUDED)
        for party, c in columns
        for oddity in _oddities(c, num_classes, error)
    ]
    return tuple(sorted(found, key=lambda f: (_ORDER.index(f.oddity), -(f.score or 0.0))))


def _oddities(c: ColumnFacts, num_classes: int, error: float) -> list[Oddity]:
    base = chance(num_classes)
    found: list[Oddity] = ["slips"] if c.slips else []
    if c.alone is not None and c.alone > THRESHOLD:
        found.append("tells the label")
    elif c.alone is not None and c.alone > max(base + SUSPECT * (1 - base), base + _ERRORS * error):
        found.append("known before?")
    if c.looks and not (c.slips and c.looks == "numbers as text"):
        found.append(c.looks)
    if c.spelt:
        found.append("spellings")
    if c.distinct <= 1 and c.common == 1.0:
        found.append("constant")
    elif c.common >= NEARLY:
        found.append("near-constant")
    if c.kind == "category" and c.distinct > MANY and not c.looks:
        found.append("many values")
    return found


_WHY: dict[Oddity, str] = {
    "slips": "numbers that are read as categories for {c.slips}: correct them, or list them in `missing`",
    "tells the label": "predicts the label alone ({c.alone:.3f}): made from the label, or known only after it",
    "known before?": "predicts the label well by itself ({c.alone:.3f}): leave it out if known only after the label",
    "identifier": "{c.distinct} different values: an identifier, which a model can only learn by heart",
    "date": "dates, which are read as numbers or categories: leave it out, or put days since a date in its place",
    "decimal commas": 'numbers with decimal commas, read as categories: set `decimal: ","`',
    "numbers as text": "numbers that are written as text, and read as categories: write them plainly, as 1234.5",
    "spellings": "categories that differ in spelling only: {c.spellings}; `categories` makes them one",
    "constant": "one value in all rows",
    "near-constant": "one value in {c.common:.1%} of the rows",
    "many values": "{c.distinct} categories, of which the rarer ones share 'other': group them, or leave it out",
}

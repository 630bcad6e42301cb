"""Notes on columns that were changed when they were read, grouped into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tune_vfl.errors import shortened


class Note(NamedTuple):
    """A note on one column: the kind of its values, such as ``missing``, and how many or which."""

    what: Literal["commas", "marks", "missing", "many", "mixed", "merged", "spelt"]
    column: str
    detail: str


_SAID = {
    "commas": 'numbers with decimal commas, read as categories unless `dataset` has decimal: ","',
    "mixed": "no numbers among numbers, so that all values are categories",
    "marks": "marks of a missing value among numbers",
    "missing": "missing numbers, set to the training mean and marked",
    "many": "many categories, of which the rarer ones share 'other'",
    "spelt": "categories that differ in spelling only, for which `data check` has a mapping",
    "merged": "different numbers that are equal in 32 bits, also after the column was centered",
}
NAMED = 3
"""So many columns or values are named in a sentence; of more their number is given."""


def grouped(notes: Sequence[Note]) -> list[str]:
    """Return a sentence for each thing that happened to columns, with the first three and how many there are."""
    told = []
    for what, said in _SAID.items():
        of = [note for note in notes if note.what == what]
        names = shortened([f"{note.column!r} ({note.detail})" for note in of], NAMED)
        if of:
            told.append(f"{said}: {'column' if len(of) == 1 else f'{len(of)} columns:'} {names}")
    return told

"""Notes on columns that were changed when they were read, grouped into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tune_vfl.data.spellings import spellings
from tune_vfl.errors import shortened

if TYPE_CHECKING:
    import pandas as pd

    from tune_vfl.data.looks import Written
    from tune_vfl.statistics.arrays import Bools

_MOSTLY_NUMBERS = 0.5


class Note(NamedTuple):
    """A note on one column: the kind of its values, such as ``missing``, and how many or which."""

    what: Literal["commas", "marks", "missing", "many", "mixed", "merged", "spelt", "words", "alike"]
    column: str
    detail: str


_SAID = {
    "commas": 'numbers with decimal commas, read as categories unless `dataset` has decimal: ","',
    "mixed": "no numbers among numbers, so that all values are categories",
    "marks": "marks of a missing value among numbers",
    "missing": "missing numbers, set to the training mean and marked",
    "words": "words that are categories beside fields without a value; where they mean none, list them in `missing`",
    "alike": "words read as no value, as are empty fields; where one is a value, give it another name by `categories`",
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


def decimal_commas(known: pd.Series[Any], name: str) -> tuple[Note, ...]:
    """Return a note on numbers with decimal commas, of which a column of texts has one at least."""
    with_comma = known[known.str.contains(",", regex=False).to_numpy(dtype=bool)]
    return (Note("commas", name, f"{len(with_comma):,} of {len(known):,}, such as {with_comma.iloc[0]!r}"),)


def differing_spellings(written: Written, name: str) -> tuple[Note, ...]:
    """Return a note on categories that differ in spelling only; none without such ones."""
    more = f", and {len(written.spelt) - 1} more" if written.spelt[1:] else ""
    return (Note("spelt", name, f"{spellings(written.spelt[0])}{more}"),) if written.spelt else ()


def mostly_numbers(numeric: Bools) -> bool:
    """Return whether so many values of a column are numbers that its texts are likely slips; ``(n,)`` says which."""
    return bool(len(numeric)) and float(numeric.mean()) > _MOSTLY_NUMBERS


def texts_among_numbers(known: pd.Series[Any], numeric: Bools, name: str) -> tuple[Note, ...]:
    """Return a note on the texts of a column that is mostly numbers; none for other columns."""
    if not mostly_numbers(numeric):
        return ()
    first = known.iloc[int(np.argmin(numeric))]
    slips = int((~numeric).sum())
    return (Note("mixed", name, f"{slips} of {len(numeric)}, such as {first!r}"),)

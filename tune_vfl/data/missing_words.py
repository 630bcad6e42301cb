"""Words that may mean no value in a column of categories that has fields without a value, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.data.column_notes import NAMED, Note
from tune_vfl.data.reading.marks import MAY_BE_VALUES, is_mark
from tune_vfl.errors import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tune_vfl.statistics.arrays import Bools


def missing_words(
    values: pd.Series[Any], missing: Bools, name: str, own: Sequence[str] = (), *, one_hot: bool
) -> tuple[Note, ...]:
    """Return notes on a column of categories in which no value is said in several ways; none where it is in one.

    Args:
        values: ``(N,)`` texts; the index counts the file's rows from 0.
        missing: ``(N,)`` where a text is read as no value.
        name: the column's name.
        own: the user's texts that mean a missing value, about which there is no question.
        one_hot: whether missing values are the category ``missing``, which a word in the file is, too.
    """
    if not missing.any():
        return ()
    known = values[~missing].drop_duplicates()
    words = [str(word) for word in known[is_mark(known)]]
    empty = set(values[missing].unique())
    alike = sorted((empty & MAY_BE_VALUES) - {*own})
    if one_hot and "missing" in words:
        words.remove("missing")
        alike.append("missing")
    found = []
    if words:
        count = int(missing.sum())
        found.append(Note("words", name, f"{_rows(values, words)}; {count:,} of {len(values):,} rows have no value"))
    others = int((missing & ~values.isin(alike).to_numpy(dtype=bool)).sum())
    if alike and (alike[1:] or others):
        found.append(Note("alike", name, f"{_rows(values, alike)}; {others:,} other rows"))
    return tuple(found)


def _rows(values: pd.Series[Any], words: Sequence[str]) -> str:
    """Name words with the number of their rows and the first one."""
    rows = [(word, values.index[(values == word).to_numpy(dtype=bool)]) for word in words]
    return shortened([f"{word!r} in {len(at):,} rows, first in row {at.min() + 1:,}" for word, at in rows], NAMED)

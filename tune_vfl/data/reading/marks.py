"""Marks of a missing value, as databases, statistics programs, spreadsheets and people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.numbers import as_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    Bools = np.ndarray[Any, np.dtype[np.bool_]]

# What only a program writes: MySQL and Hive, SPSS and spreadsheets, pandas, R, C libraries of Windows.
_OF_PROGRAMS = frozenset({
    "\\N", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?", "#N/A N/A", "#NA", "NaT", "<NA>", "(null)",
    "<null>", "[NULL]", "(NULL)", "<NULL>", "-1.#IND", "1.#IND", "-1.#QNAN", "1.#QNAN", "1.#SNAN", "-nan", "-NaN",
})  # fmt: skip
MISSING = _OF_PROGRAMS | {"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "?"}
"""Missing wherever they stand in a feature."""
MAY_BE_VALUES = frozenset({"NA", "N/A", "n/a", "None", "?"})
"""Those of them that people also write for a value, such as NA for North America."""
MISSING_LABELS = _OF_PROGRAMS | {"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"}
"""Fewer than for features: a class may well be called "None" or "?"."""
# In small letters. Elsewhere these may be categories: a grade, a sign, a word.
_AMONG_NUMBERS = frozenset({
    ".", "..", "...", "-", "--", "---", "_", "*", "**", ":", "/", "!", "??", "\u2013", "\u2014", "\u2026", "\u2212",
    "na", "nan", "n/a", "n.a.", "n.a", "n/d", "n.d.", "nd", "n/k", "nk", "none", "null", "nil", "missing", "unknown",
    "unk", "not available", "not applicable", "no data", "blank", "empty", "undefined", "nat", "void", "+nan", "-nan",
    "#n/a!", "keine angabe", "k.a.", "k. a.",
})  # fmt: skip


def is_missing(values: pd.Series[Any], own: Sequence[str] = ()) -> Bools:
    """Return ``(N,)`` where a text says that there is no value, in whatever column.

    Args:
        values: texts, without surrounding blanks.
        own: marks of the user; ``-999`` is also ``-999.0``.
    """
    import pandas as pd

    missing = values.isin([*MISSING, *own]).to_numpy(dtype=bool)
    numbers = as_numbers(pd.Series([str(mark) for mark in own], dtype=str)) if own else np.empty(0)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return missing
    marked: Bools = missing | np.isin(as_numbers(values.astype(str)), numbers)
    return marked


def is_mark(texts: pd.Series[Any]) -> Bools:
    """Return ``(n,)`` where a text says that there is no value if all other values of its column are numbers."""
    folded = texts.str.casefold()
    marks: Bools = (texts.isin(list(MISSING)) | folded.isin(list(_AMONG_NUMBERS))).to_numpy(dtype=bool)
    # SAS has 26 missing values, .A to .Z.
    return marks | folded.str.fullmatch(r"\.[a-z]").to_numpy(dtype=bool)

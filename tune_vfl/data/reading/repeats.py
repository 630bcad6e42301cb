"""Lines of a table that are no rows: its header once more, as in exports put together, and totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.numbers import as_numbers
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from tune_vfl.statistics.arrays import Bools, Floats

_BYTE_ORDER_MARK = "\ufeff"
_TOTALS = frozenset({
    "total", "totals", "total:", "grand total", "subtotal", "sub-total", "sub total", "sum", "sums", "overall",
    "summe", "gesamt", "gesamtsumme", "zwischensumme", "total general", "totale", "totaal", "somme", "suma", "soma",
    "average", "mean", "avg", "mittelwert", "durchschnitt", "moyenne",
})  # fmt: skip
# Columns that are looked at for such a word; of the last row, all are.
_FIRST = 3
# A word in a larger share of the rows is a category, whatever the sums.
_RARE = 0.1
# Without a sum, it is one from this share on.
_RARER = 0.01
_NEARLY = 1e-6


def rows_alone(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Leave out lines of a table that repeat its header, and totals; ``attrs["left_out"]`` says so.

    A total is a line with such a word among its first fields (of the last line, among all) of which a number is the sum
    or the mean of the rows above it, or of all rows. One with the word alone is only said.

    Raises:
        DataError: for a line of the names of the columns in another order, or of most of them.
    """
    frame = _without(frame, _headers(frame, path), path, "repeat the header")
    words = _words(frame)
    if not words.any():
        return frame
    proven = np.zeros(len(frame), dtype=bool)
    places = np.flatnonzero(words)
    proven[places] = _are_sums(frame, places, words)
    left = frame.index[words & ~proven]
    frame = _without(frame, proven, path, "are totals of others")
    if 0 < len(left) <= max(1.0, _RARER * len(frame)):
        said = f"{path.name}: row {left[0] + 1} has the word for a total in it, but no sum; remove it if it is no row"
        frame.attrs["left_out"] = (*frame.attrs.get("left_out", ()), said)
    return frame


def _without(frame: pd.DataFrame, lines: Bools, path: Path, what: str) -> pd.DataFrame:
    if not lines.any():
        return frame
    kept = frame[~lines]
    first = f"first in row {frame.index[int(np.argmax(lines))] + 1}"
    said = f"{path.name}: {int(lines.sum()):,} of {len(frame):,} rows {what} ({first}) and are left out"
    kept.attrs["left_out"] = (*frame.attrs.get("left_out", ()), said)
    if kept.empty:
        raise DataError(f"{path}: holds a header and no rows; a data set needs rows")
    return kept


def _headers(frame: pd.DataFrame, path: Path) -> Bools:
    import pandas as pd

    names = [_plain(name) for name in frame.columns]
    lines = np.zeros(len(frame), dtype=bool)
    if len(names) == 1:
        return lines
    spelt = {name for own in map(str, frame.columns) for name in _cases(own)} - {""}
    # In one call: the names of thousands of columns are prepared for each anew.
    first = pd.concat([frame[column] for column in frame.columns[:_FIRST]], ignore_index=True)
    here = first.str.lstrip(_BYTE_ORDER_MARK).isin(spelt).to_numpy(dtype=bool)
    candidates = here.reshape(-1, len(frame)).any(0)
    for place in np.flatnonzero(candidates).tolist():
        fields = [_plain(str(value)) for value in frame.iloc[place]]
        same = sum(field == name for field, name in zip(fields, names, strict=True))
        if same == len(names):
            lines[place] = True
        elif 2 * same > len(names) or sorted(fields) == sorted(names):
            how = "in another order" if sorted(fields) == sorted(names) else "but with other names"
            raise DataError(
                f"{path}: row {frame.index[place] + 1} repeats the header {how}, so that the rows after it are of "
                "another table; put the tables together by the names of their columns"
            )
    return lines


def _cases(name: str) -> tuple[str, ...]:
    """Return the usual spellings of a name; to fold all values of a column would cost more than the rest."""
    return name, name.lower(), name.upper(), name.capitalize(), name.title()


def _plain(name: str) -> str:
    return name.lstrip(_BYTE_ORDER_MARK).strip().casefold()


def _words(frame: pd.DataFrame) -> Bools:
    """Return ``(N,)`` where a word for a total stands, which is rare in its column."""
    words = np.zeros(len(frame), dtype=bool)
    spelt = [name for word in _TOTALS for name in _cases(word)]
    for column in frame.columns[:_FIRST]:
        here = frame[column].isin(spelt).to_numpy(dtype=bool)
        if here.sum() <= max(1.0, _RARE * len(frame)):
            words |= here
    last = frame.iloc[-1]
    for column in frame.columns[_FIRST:][last.iloc[_FIRST:].isin(spelt).to_numpy(dtype=bool)]:
        if (frame[column] == last[column]).sum() == 1:
            words[-1] = True
    return words


def _are_sums(frame: pd.DataFrame, places: Any, words: Bools) -> Bools:
    """Return for each line with such a word whether a number of it is the sum or the mean of rows."""
    found = np.zeros(len(places), dtype=bool)
    starts = [0, *(int(place) + 1 for place in places[:-1])]
    for column in frame.columns:
        numbers = as_numbers(frame[column])
        if np.isnan(numbers[places]).all():
            continue
        for k, (start, place) in enumerate(zip(starts, places, strict=True)):
            found[k] |= any(
                _is_sum(numbers[place], rows[~np.isnan(rows)])
                for rows in (numbers[start:place], numbers[:place][~words[:place]])
            )
        if found.all():
            break
    return found


def _is_sum(number: float, rows: Floats) -> bool:
    if len(rows) < 2 or not np.isfinite(number) or not number:
        return False
    return any(abs(number - value) <= _NEARLY * abs(number) for value in (float(rows.sum()), float(rows.mean())))

"""Times in text: numbers that rise, or dates in a format that leaves no choice; others are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.numbers import as_numbers, declared_numbers
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from tune_vfl.statistics.arrays import Floats

# Month before year or day before month cannot be mistaken in these; what may be is refused.
_FORMATS: tuple[str, ...] = (
    "ISO8601", "%b-%Y", "%b %Y", "%B %Y", "%d-%b-%Y", "%d %b %Y", "%d.%m.%Y", "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S", "%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S",
)  # fmt: skip
_AMBIGUOUS = ("%d/%m/%Y", "%m/%d/%Y")
# Dates with a year of two digits, by the year of four that is put in its place.
_SHORT_YEARS = {
    "%b-%Y": re.compile(r"([A-Za-z]{3}-)([0-9]{2})"),
    "%d-%b-%Y": re.compile(r"(.+-[A-Za-z]{3}-)([0-9]{2})"),
}
_LONGEST = 50
"""Two-digit years that span more may belong to two centuries in two ways."""
_FEWEST = 3
_YEAR, _MONTH, _DAY = r"(?:19|20)[0-9]{2}", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12][0-9]|3[01])"
# Dates without separators: in order, in the order of their first two digits, and in none.
_RISING = f"{_YEAR}{_MONTH}(?:{_DAY})?"
_SHORT = f"[0-9]{{2}}{_MONTH}(?:{_DAY})?"
_FALLING = f"(?:{_DAY}{_MONTH}|{_MONTH}{_DAY})(?:{_YEAR}|[0-9]{{2}})|{_MONTH}{_YEAR}"
_WRITE = "write dates as 2024-12-31 or 2024-12-31T23:59:59, or give numbers"


def times_of(values: pd.Series[Any], place: str) -> tuple[Floats, str]:
    """Return times as numbers ``(N,)`` that rise with them, and the end of a note where the reading was a choice.

    Args:
        values: N texts without missing ones; the index counts the file's rows from 0.
        place: names the file and the column, for messages.

    Raises:
        DataError: for texts that are no times, or that may be read as times in two orders.
    """
    import pandas as pd

    numbers = as_numbers(values)
    if np.isnan(numbers).any():
        numbers = declared_numbers(values)
    if not np.isnan(numbers).any():
        _check_rising(values, place)
        return numbers, ""
    for style in _FORMATS:
        parsed = pd.to_datetime(values, format=style, errors="coerce", utc=True)
        if parsed.notna().all():
            return _seconds(parsed), ""
    for style, short in _SHORT_YEARS.items():
        if values.str.fullmatch(short).all():
            years = values.str[-2:].astype(int)
            first, last = _centuries(years, place)
            century = np.where(years < first % 100, last // 100, first // 100).astype(str)
            texts = values.str[:-2] + century + values.str[-2:]
            parsed = pd.to_datetime(texts, format=style, errors="coerce", utc=True)
            if parsed.notna().all():
                return _seconds(parsed), f"; its two-digit years are read as {first} to {last}"
    fitting = [p for style in _AMBIGUOUS if (p := pd.to_datetime(values, format=style, errors="coerce")).notna().all()]
    if len(fitting) == 1:
        return _seconds(fitting[0]), ""
    if fitting:
        raise DataError(f"{place}: holds {values.iloc[0]!r}, where day and month may be exchanged; {_WRITE}")
    parsed = pd.to_datetime(values, format="ISO8601", errors="coerce", utc=True)
    first = int(np.argmax(parsed.isna()))
    raise DataError(
        f"{place}: holds {values.iloc[first]!r} in row {values.index[first] + 1}, which is no time as the others are; "
        f"{_WRITE}"
    )


def _seconds(parsed: Any) -> Floats:
    seconds: Floats = parsed.astype("int64").to_numpy().astype(np.float64)
    return seconds


def _centuries(years: pd.Series[Any], place: str) -> tuple[int, int]:
    """Return the first and the last year that two digits mean, where one reading alone spans at most 50 years."""
    found = np.unique(years.to_numpy())
    gaps = np.diff([*found, found[0] + 100])
    cut = int(gaps.argmax())
    first, last = int(found[(cut + 1) % len(found)]), int(found[cut])
    span = 100 - int(gaps[cut])
    if span > _LONGEST:
        row = years.index[int(np.argmax(years == found[0]))] + 1
        raise DataError(
            f"{place}: its two-digit years run from {found[0]:02d} to {found[-1]:02d} (the first {found[0]:02d} is in "
            f"row {row}), so that the century of each is open; write years with four digits"
        )
    if last < first:
        return 1900 + first, 2000 + last
    century = 2000 if last < 69 else 1900  # as POSIX has it; their order does not depend on it
    return century + first, century + last


def _check_rising(values: pd.Series[Any], place: str) -> None:
    """Refuse dates without separators whose numbers are no order in time, such as 31122019."""
    texts = values.drop_duplicates()
    padded = texts.str.zfill(int(texts.str.len().max()))
    if len(padded) < _FEWEST or padded.str.fullmatch(_RISING).all():
        return
    short = padded.str.fullmatch(_SHORT).all()
    # Of dates that may begin or end with their year, the years are the two digits of fewer different values.
    begins = short and padded.str[:2].nunique() < padded.str[-2:].nunique()
    if padded.str.fullmatch(_FALLING).all() and not begins:
        raise DataError(
            f"{place}: holds {texts.iloc[0]!r} in row {texts.index[0] + 1}, a date that does not begin with its year, "
            f"so that the numbers do not rise with time; {_WRITE}"
        )
    if short:
        first, last = _centuries(padded.str[:2].astype(int), place)
        if first // 100 < last // 100:
            raise DataError(
                f"{place}: holds dates with years of two digits, {first} to {last}, whose numbers do not rise with "
                f"time; {_WRITE}"
            )

"""Tables as pandas frames, and as CSV in which a spreadsheet finds no formula and a terminal nothing to obey.

pandas is loaded with the first table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.machine.streams import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell of text that begins with one of these is a formula to spreadsheets, which may run programs and send data."""


def frame_of(rows: Iterable[Any], columns: list[str] | None = None) -> pd.DataFrame:
    """Return a frame of rows, each a mapping or a sequence of one value per column."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def to_csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV; names and texts that begin a formula get an apostrophe before them, numbers do not.

    Hidden characters are written as :func:`tune_vfl.machine.streams.visible` shows them.
    """
    texts = frame.select_dtypes(exclude=["number", "bool", "datetime"]).columns
    escaped = frame.assign(**{str(name): frame[name].map(_escaped) for name in texts})
    return str(escaped.rename(columns=_escaped).to_csv(index=False))


def _escaped(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = f"'{value}" if value.startswith(FORMULA) and not _is_number(value) else value
    # A line feed is quoted: a carriage return would begin a row.
    return visible(text.replace("\r\n", "\n").replace("\r", "\n"))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.startswith(("\t", "\r"))

"""Tables of numbers for files. Pandas comes with the first of them: a report that stays as it is needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


def frame_of(rows: Iterable[Any], columns: list[str] | None = None) -> pd.DataFrame:
    """Return the table of rows, each a mapping, or a sequence of as many values as there are columns."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)

"""Construction of pandas frames with a lazy import: pandas is loaded with the first table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


def frame_of(rows: Iterable[Any], columns: list[str] | None = None) -> pd.DataFrame:
    """Return a frame of rows, each a mapping or a sequence of one value per column."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)

"""Values of columns that count as another one, as the option ``categories`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_MOST_NAMES = 1000


def merge_categories(frame: pd.DataFrame, categories: Mapping[str, Mapping[str, str]], where: str) -> pd.DataFrame:
    """Return a frame of texts in which some values of columns are replaced.

    Args:
        frame: the rows of a file.
        categories: by column, the new text by the text in the file; columns that the frame lacks are left alone.
        where: names the file, for messages.

    Raises:
        DataError: for a value that no row has.
    """
    here = {column: names for column, names in categories.items() if column in frame.columns}
    for column, names in here.items():
        known = set(frame[column])
        for name in names:
            if name not in known:
                near = did_you_mean(name, sorted(known)[:_MOST_NAMES])
                raise DataError(
                    f"{where}: categories names {name!r} of column {column!r}, which no row has; take it off.{near}"
                )
    return frame.assign(**{column: frame[column].replace(dict(names)) for column, names in here.items()})

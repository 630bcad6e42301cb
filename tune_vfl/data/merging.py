"""Values of columns that count as another one, as the option ``categories`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_MOST_NAMES = 1000


def merge_categories(
    frames: Mapping[str, pd.DataFrame], categories: Mapping[str, Mapping[str, str]]
) -> dict[str, pd.DataFrame]:
    """Return frames of texts in which some values of columns are replaced.

    Args:
        frames: the rows of each file, by a name of the file for messages.
        categories: by column, the new text by the text in a file; columns that a frame lacks are left alone.

    Raises:
        DataError: for a value that no row of any file has in that column.
    """
    for column, names in categories.items():
        holding = {where: set(frame[column]) for where, frame in frames.items() if column in frame.columns}
        known = set().union(*holding.values())
        for name in names if holding else ():
            if name not in known:
                near = did_you_mean(name, sorted(known)[:_MOST_NAMES])
                raise DataError(
                    f"{', '.join(holding)}: categories names {name!r} of column {column!r}, which no row has; take it "
                    f"off.{near}"
                )
    return {where: _merged(frame, categories) for where, frame in frames.items()}


def _merged(frame: pd.DataFrame, categories: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    def changed(column: str, names: Mapping[str, str]) -> pd.Series[str]:
        return frame[column].map(lambda text: names.get(text, text))

    return frame.assign(**{c: changed(c, names) for c, names in categories.items() if c in frame.columns})

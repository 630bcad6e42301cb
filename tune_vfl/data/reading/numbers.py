"""Read a large file of plain numbers: fast, and as strict as the reader of text tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.table import readable
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def read_numbers(path: Path, columns: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Read comma-separated numbers without a header, packed where the name ends in ``.gz`` or ``.xz``.

    Args:
        path: the file.
        columns: how many numbers each line must hold.

    Returns:
        ``(N, columns)`` finite numbers.

    Raises:
        DataError: naming file, line and column of a value that is missing, too many, not a number or not finite.
    """
    import pandas as pd

    with readable(path):
        try:
            # One more column is read than expected: a value in it shows that a line is too long.
            frame = pd.read_csv(
                path, header=None, names=[*range(columns + 1)], index_col=False, low_memory=False, na_filter=True
            )
        except pd.errors.ParserError as error:
            raise DataError(
                f"{path}: is not {columns} comma-separated numbers a line ({str(error).strip()}); fetch the file again"
            ) from error
    if frame.empty:
        raise DataError(f"{path}: is empty; expected {columns} numbers a line")
    if frame[columns].notna().any():
        line = int(np.argmax(frame[columns].notna())) + 1
        raise DataError(f"{path}: line {line} has more than the {columns} fields expected; fetch the file again")
    return _finite(frame.drop(columns=columns), path)


def _finite(frame: pd.DataFrame, path: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    import pandas as pd

    numbers: np.ndarray[Any, np.dtype[np.float64]] = frame.apply(pd.to_numeric, errors="coerce").to_numpy(
        dtype=np.float64
    )
    broken = ~np.isfinite(numbers)
    if not broken.any():
        return numbers
    line, column = (int(k) for k in np.unravel_index(int(np.argmax(broken)), broken.shape))
    found: Any = frame.iloc[line, column]
    what = "is missing" if pd.isna(found) else f"holds {str(found)!r}, which is no finite number"
    raise DataError(
        f"{path}: column {column + 1} of {frame.shape[1]} in line {line + 1} {what}; if it is cut off, fetch it again"
    )

"""Numbers in text: the rule that recognizes them, and a fast reader of large files of numbers alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.files import readable
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from tune_vfl.statistics.arrays import Floats

# An exponent needs a sign or a decimal point where it is written with a capital letter: 1E50 is a code, 1E+50 is not.
_EXPONENT = r"(?:e[+-]?|E[+-])[0-9]{1,3}"
_DECIMALS = r"\.[0-9]*"
_INFINITE = r"[Ii]nf(?:inity)?|INF(?:INITY)?"
_STRICT = (
    rf"[+-]?(?:(?:0|[1-9][0-9]{{0,14}})(?:(?:{_DECIMALS})?(?:{_EXPONENT})?|{_DECIMALS}E[0-9]{{1,3}})"
    rf"|\.[0-9]+(?:{_EXPONENT}|E[0-9]{{1,3}})?|{_INFINITE})"
)
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.0*)?")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_EXACT = 15


def as_numbers(texts: pd.Series[Any]) -> Floats:
    """Return the numbers ``(N,)`` that texts hold; NaN for a text that is none.

    What may be a code is no number: leading zeros (``007``), underscores (``1_0``), more than 15 digits before the
    decimal point, a capital E without sign and point (``1E50``).
    """
    import pandas as pd

    plain = texts.str.fullmatch(_STRICT).to_numpy(dtype=bool)
    numbers: Floats = np.full(len(texts), np.nan)
    numbers[plain] = pd.to_numeric(texts[plain]).to_numpy(dtype=np.float64)
    return numbers


def declared_numbers(texts: pd.Series[Any]) -> Floats:
    """Return the numbers of a column that is declared numeric, leading zeros and long ones among them; NaN for others.

    Of whole numbers with more than 15 digits their median is subtracted before they are rounded.
    """
    import pandas as pd

    known = [str(text) for text in texts]
    if max(map(len, known), default=0) > _EXACT and all(_DIGITS.fullmatch(text) for text in known):
        exact = [int(text) for text in known]
        middle = sorted(exact)[len(exact) // 2]
        return np.array([float(number - middle) for number in exact])
    return pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64)


def whole(text: str) -> str | None:
    """Return a whole number of at most 15 digits in its shortest form, ``1`` for ``+1.0``; None for other texts."""
    return str(int(text.partition(".")[0])) if _WHOLE.fullmatch(text) else None


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

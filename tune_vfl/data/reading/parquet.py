"""Read a Parquet or Feather file as text, as a csv of the same table would hold it: both are encoded in one way."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tune_vfl.data.reading.first_bytes import FEATHER, PARQUET, begins, is_packed, refuse_others
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal
    from pathlib import Path

    import pandas as pd

SUFFIXES = frozenset({".parquet", ".pq"})
# The names of the columns to which pandas writes the levels of an index without names.
_INDEX = re.compile(r"__index_level_[0-9]+__")
_MOST_DIGITS = 1e15
_SHOWN = 40


def is_columnar(path: Path) -> bool:
    """Whether a file is Parquet or Feather by its first bytes, or should be by its suffix.

    Raises:
        DataError: when it cannot be read.
    """
    return begins(path).startswith((PARQUET, FEATHER)) or (path.suffix.lower() in SUFFIXES and not is_packed(path))


def read_columnar(path: Path) -> pd.DataFrame:
    """Read a Parquet or Feather file, as text.

    Returns:
        A frame of strings as :func:`tune_vfl.data.reading.table.read_table` returns it: numbers in the shortest form
        that reads back as the same number, ``True`` and ``False``, an empty string for what is missing. The
        nameless index that pandas writes is left out, all levels of it, and ``attrs["left_out"]`` says so;
        ``attrs["numbers"]`` names the columns whose type is a number, however many digits they have.

    Raises:
        DataError: when it is neither, is cut off, is empty, names a column twice, or holds a column of lists,
            structures or bytes.
    """
    import pandas as pd

    table = _table(path)
    names = [str(name).strip() for name in table.column_names]
    if table.num_rows == 0:
        raise DataError(f"{path}: holds {len(names)} columns and no rows; a data set needs rows")
    texts = {name: _texts(path, name, column) for name, column in zip(names, table.columns, strict=True)}
    levels = [name for name in names if _INDEX.fullmatch(name)]
    frame = pd.DataFrame({name: text for name, text in texts.items() if name not in levels})
    if levels:
        said = f" ({len(levels)} levels)" if levels[1:] else ""
        frame.attrs["left_out"] = (f"{path.name}: the nameless index that pandas writes is left out{said}",)
    frame.attrs["numbers"] = tuple(
        name for name, column in zip(names, table.columns, strict=True) if _is_number(column.type)
    )
    return frame


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            first = begins(path)
            refuse_others(path, first)
            if first.startswith(FEATHER):
                read = pa.ipc.open_file(file)
                _check_names(path, [str(name).strip() for name in read.schema.names])
                return read.read_all()
            if not first.startswith(PARQUET):
                found = "it is empty" if not first else f"it begins with {first[:4]!r}"
                raise DataError(
                    f"{path}: is not a Parquet file ({found}); write it as Parquet, or name a csv so that it ends in "
                    ".csv"
                )
            opened = pq.ParquetFile(file)
            _check_names(path, [str(name).strip() for name in opened.schema_arrow.names])
            return opened.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: is corrupt or cut off ({reason}); fetch or write the file again") from error


def _check_names(path: Path, names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if not name or times > 1:
            said = "has no name" if not name else f"is there {times} times"
            raise DataError(f"{path}: column {name!r} {said}; give every column a name of its own")


def _texts(path: Path, name: str, column: Any) -> pd.Series[str]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    try:
        refused = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
        if any(is_of(kind) for is_of in refused):
            raise TypeError
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if pa.types.is_floating(column.type):
            column = _as_whole(pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column))
        if pa.types.is_decimal(column.type):
            return pd.Series([_plain(value) for value in column.to_pylist()], dtype=str)
        if pa.types.is_boolean(column.type):
            column = pc.if_else(column, "True", "False")
        texts = _decoded(path, name, pc.fill_null(column.cast(pa.string()), ""))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"{path}: column {name!r} holds {kind} values; give one number or text a row, or remove the column"
        ) from error
    return pd.Series(texts, dtype=str).str.strip()


def _decoded(path: Path, name: str, column: Any) -> list[str]:
    import pyarrow as pa

    try:
        texts: list[str] = column.to_pylist()
        return texts
    except UnicodeDecodeError as error:
        held = (value.cast(pa.binary()).as_py() for value in column)
        row, found = next((row, text) for row, text in enumerate(held, start=1) if not _is_utf_8(text))
        raise DataError(
            f"{path}: column {name!r} holds {found[:_SHOWN]!r} in row {row:,}, which is not UTF-8; correct it, and "
            "write the file again"
        ) from error


def _is_utf_8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _plain(value: Decimal | None) -> str:
    """Return all digits of a decimal without an exponent and without zeros at the end: ``0``, and not ``0E-9``."""
    if value is None:
        return ""
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) if value else "0"


def _as_whole(column: Any) -> Any:
    """Return floats that are all whole as integers: ``2000000`` and not ``2e+06``, which is no class."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wide = column.cast(pa.float64())
    whole = pc.and_(pc.less(pc.abs(wide), _MOST_DIGITS), pc.equal(pc.floor(wide), wide))
    return wide.cast(pa.int64()) if pc.all(whole).as_py() else column

"""Read a text table strictly: rows as long as the header, no repeated column, and every error names the file."""

from __future__ import annotations

import csv
import io
from collections import Counter
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tune_vfl.data.reading.encodings import USUAL, decoded
from tune_vfl.data.reading.files import readable
from tune_vfl.data.reading.first_bytes import is_packed, unpacked
from tune_vfl.data.reading.parquet import is_columnar, read_columnar
from tune_vfl.data.reading.repeats import rows_alone
from tune_vfl.data.reading.separators import COMMON, LINES, RARER, chosen, fitting, outside_quotes
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

_SHOWN = 40
_LONGEST_FIELD = 2**31 - 1


_WITH_COMMA = r"^([+-]?[0-9]*),([0-9]*(?:[eE][+-]?[0-9]{1,3})?)$"


class TextForm(NamedTuple):
    """The format of a text table: separator, encoding, decimal sign; None for the usual ones."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None


def read_table(path: Path, names: Sequence[str] | None = None, form: TextForm = TextForm()) -> pd.DataFrame:  # noqa: B008
    """Read a Parquet or Feather file, or a ``,``-, ``;``- or tab-separated text file, packed or not.

    Its first bytes say what it is, not its name.

    Args:
        path: the file; text is in UTF-8 unless ``form`` says otherwise.
        names: the columns of a text file without a header; by default its first line names them.
        form: how the table is written; of a Parquet or Feather file only the decimal sign of texts counts.

    Returns:
        A frame of strings, stripped of surrounding blanks; a missing value keeps its text, such as ``NA``. A nameless
        first column that only counts the rows, as pandas writes its index, is left out, as are lines that repeat the
        header and totals; ``left_out`` says so.

    Raises:
        DataError: naming the file, and the line and the column where there is one.
    """
    if names is None and is_columnar(path):
        return rows_alone(_with_points(read_columnar(path), form), path)
    with readable(path), decoded(path, form.encoding):
        delimiter, header = _head(path, names, form)
        rows = _check_rows(path, delimiter, header, form, skip=0 if names else 1)
    if not rows:
        raise DataError(f"{path}: holds a header and no rows; a data set needs rows")
    frame = _with_points(_parse(path, delimiter, header, form, has_header=names is None), form)
    return frame if names else _without_count(rows_alone(frame, path), path)


def _with_points(frame: pd.DataFrame, form: TextForm) -> pd.DataFrame:
    """Write ``4,5`` as ``4.5`` where the decimal sign is a comma; other texts stay."""
    if form.decimal != ",":
        return frame
    for name in frame.columns:
        frame[name] = frame[name].str.replace(_WITH_COMMA, r"\1.\2", regex=True)
    return frame


def header(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    if is_columnar(path):
        return [str(name) for name in read_columnar(path).columns]
    with readable(path), decoded(path, None):
        return [name for name in _head(path, None, TextForm())[1] if name]


def left_out(frame: pd.DataFrame) -> list[str]:
    """Return notes on the rows of a file that :func:`read_table` skipped."""
    return list(frame.attrs.get("left_out", ()))


def _without_count(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    if "" not in frame.columns:
        return frame
    # Row numbers are no feature. In a file that is sorted by label they would even reveal the label.
    if not (frame[""].str.fullmatch(r"[0-9]+").all() and frame[""].is_unique):
        raise _nameless(path, 1)
    kept = frame.drop(columns="")
    said = f"{path.name}: the nameless first column only numbers the rows and is left out"
    kept.attrs["left_out"] = (*left_out(frame), said)
    return kept


def _nameless(path: Path, place: int) -> DataError:
    return DataError(
        f"{path}: column {place} of the header has no name; name it, or remove it if it only counts the rows "
        "(pandas writes such a column unless index=False is given)"
    )


@contextmanager
def open_text(path: Path, encoding: str | None = None) -> Iterator[IO[str]]:
    """Open a text file, packed or not."""
    with unpacked(path) as file, io.TextIOWrapper(file, encoding=encoding or USUAL, newline="") as text:
        yield text


def _records(file: IO[str], delimiter: str, *, strict: bool = False) -> Any:
    # A long text is a field like any other: the module's own limit is 131,072 characters.
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(file, delimiter=delimiter, strict=strict)


def _head(path: Path, names: Sequence[str] | None, form: TextForm) -> tuple[str, list[str]]:
    with open_text(path, form.encoding) as file:
        first = next((line for line in file if line.strip()), "")
    if not first:
        raise DataError(f"{path}: is empty; expected a csv with a header and rows")
    if "\x00" in first:
        raise DataError(f"{path}: is not a csv (its first line holds binary data); save the table as csv in UTF-8")
    delimiter = form.separator or _separator(path, first, form)
    if names is not None:
        return delimiter, list(names)
    with open_text(path, form.encoding) as file:
        header = [name.strip() for name in next(row for row in _records(file, delimiter) if row)]
    _check_header(path, header)
    return delimiter, header


def _separator(path: Path, first: str, form: TextForm) -> str:
    there = [mark for mark in COMMON if mark in outside_quotes(first)]
    fits = fitting({mark: _first_records(path, mark, form) for mark in there}) if there[1:] else {}
    found = chosen(fits, first, path)
    if found is None:
        said = " and ".join(repr(mark) for mark in fits)
        raise DataError(
            f"{path}: {said} separate all of its lines into equally many fields; set `separator` to one of them"
        )
    return found


def _first_records(path: Path, delimiter: str, form: TextForm) -> list[list[str]]:
    with open_text(path, form.encoding) as file:
        try:
            return list(islice(_records(file, delimiter, strict=True), LINES))
        except csv.Error:  # the quotes are not those of a table with this separator
            return []


def _check_header(path: Path, header: list[str]) -> None:
    if header[0].lower().startswith("sep="):
        raise DataError(f"{path}: its first line tells Excel the separator ({header[0]!r}); remove that line")
    if len(header) > 1 and not header[-1]:
        raise DataError(
            f"{path}: the last column of the header has no name; if the lines end in a separator, remove it from "
            "all of them, else name the column"
        )
    times = Counter(header)
    for place, name in enumerate(header, start=1):
        if not name and (place > 1 or len(header) == 1):
            raise _nameless(path, place)
        if name and times[name] > 1:
            raise DataError(f"{path}: the header names column {name!r} {times[name]} times; rename all but one")


def _check_rows(path: Path, delimiter: str, header: list[str], form: TextForm, skip: int) -> int:
    rows = -skip
    with open_text(path, form.encoding) as file:
        reader = _records(file, delimiter, strict=True)
        for row in reader:
            if not row:
                continue
            rows += 1
            if "\x00" in "".join(row):
                raise DataError(
                    f"{path}: line {reader.line_num} holds a null character, which no text has; is the file cut "
                    "off, or in another `encoding`, such as utf-16?"
                )
            if rows > 0 and len(row) != len(header):
                raise DataError(
                    f"{path}: line {reader.line_num} has {len(row)} fields where {len(header)} columns "
                    f"({_short(header[0])!r} to {_short(header[-1])!r}) are expected; check its separators"
                    f"{_said_separator(path, header, form)} and quotes, or whether the file is cut off"
                )
    return rows


def _said_separator(path: Path, header: list[str], form: TextForm) -> str:
    """Return the advice to set ``separator``, with an example that fits all lines where there is one."""
    if form.separator is not None:
        return ""
    fits = fitting({mark: _first_records(path, mark, form) for mark in RARER})
    if not fits and len(header) > 1:
        return ""
    likely = max(fits or RARER, key=lambda mark: fits.get(mark, 0) or header[0].count(mark))
    example = f" to {likely!r}" if fits or likely in header[0] else ""
    return f" (of another than , ; and tab, set `separator`{example})"


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"


def _parse(path: Path, delimiter: str, header: list[str], form: TextForm, *, has_header: bool) -> pd.DataFrame:
    import pandas as pd

    try:
        # Of a file that is not packed pandas takes the path, and reads faster.
        with unpacked(path) if is_packed(path) else nullcontext(path) as source:
            frame = pd.read_csv(
                source,
                sep=delimiter,
                header=0 if has_header else None,
                names=header,
                index_col=False,
                dtype=str,
                na_filter=False,
                encoding=form.encoding or USUAL,
                compression=None,
            )
    except (ValueError, OSError) as error:
        raise DataError(f"{path}: cannot be read as a csv: {error}") from error
    # As arrays: thousands of equal indexes need not be compared.
    return pd.DataFrame({name: frame[name].str.strip().array for name in header}, copy=False)

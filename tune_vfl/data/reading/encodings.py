"""Text that is not in the encoding in which it is read: the line, and whether the line or the encoding is wrong."""

from __future__ import annotations

import codecs
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.data.reading.first_bytes import unpacked
from tune_vfl.errors import DataError, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USUAL = "utf-8-sig"
_AROUND = 8
_NAMED = 5


class _Foreign(NamedTuple):
    """Lines of a text that are not in UTF-8.

    Attributes:
        lines: their numbers.
        first: what stands around the first such byte.
        others: the number of lines with letters that only UTF-8 can hold.
    """

    lines: list[int]
    first: bytes
    others: int


@contextmanager
def decoded(path: Path, encoding: str | None) -> Iterator[None]:
    """Turn the error of decoding a text file, packed or not, into one that names the line and the remedy.

    Args:
        path: the file that is read while the block runs.
        encoding: the encoding that the options say; None for UTF-8.

    Raises:
        DataError: where the file is not in that encoding.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        foreign = _foreign(path)
        raise DataError(_other(path, encoding, foreign) if encoding else _not_utf_8(path, foreign, error)) from error


def _not_utf_8(path: Path, foreign: _Foreign, error: UnicodeDecodeError) -> str:
    first, more = foreign.lines[0], shortened([f"{line:,}" for line in foreign.lines[1:]], _NAMED)
    if not foreign.others:
        return (
            f"{path}: is not UTF-8 text ({error.reason}: {foreign.first!r} in line {first:,}"
            f"{f', and so in {len(foreign.lines) - 1:,} more' if more else ''}); save it as csv in UTF-8, or say its "
            "`encoding`, such as cp1252 or utf-16"
        )
    also = f", and so do lines {more}" if more else ""
    return (
        f"{path}: line {first:,} holds {foreign.first!r}, which is not UTF-8{also}, while {foreign.others:,} other "
        f"lines hold letters in UTF-8: correct {'these lines' if more else 'that line'}, and save it as csv in UTF-8; "
        "to say another `encoding` would spoil the other lines"
    )


def _other(path: Path, encoding: str, foreign: _Foreign) -> str:
    if not foreign.lines:
        return f"{path}: is not {encoding} text, as `encoding` says, but UTF-8; leave `encoding` out"
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with unpacked(path) as file:
        while chunk := file.read(1 << 16):
            try:
                line += decoder.decode(chunk).count("\n")
            except UnicodeDecodeError as error:
                line += error.object[: error.start].decode(encoding, errors="ignore").count("\n")
                break
    return (
        f"{path}: line {line:,} is not {encoding} text, as `encoding` says; correct that line, or `encoding`: usual "
        "ones are cp1252, utf-16, gb18030"
    )


def _foreign(path: Path) -> _Foreign:
    lines: list[int] = []
    first, others = b"", 0
    with unpacked(path) as file:
        for number, line in enumerate(file, start=1):
            if line.isascii():
                continue
            try:
                line.decode("utf-8")
                others += 1
            except UnicodeDecodeError as error:
                first = first or line.rstrip()[max(0, error.start - _AROUND) : error.start + _AROUND]
                lines.append(number)
    return _Foreign(lines, first, others)

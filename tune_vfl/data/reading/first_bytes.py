"""Formats of files by their first bytes, whatever the name: packed text is opened, others are named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, cast

from tune_vfl.data.reading.files import readable
from tune_vfl.errors import DataError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LOOKED_AT = 64
_GZIP, _XZ, _BZ2, _ZIP = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"PK\x03\x04"
_PACKED = {_GZIP: "gzip", _XZ: "xz", _BZ2: "bzip2", _ZIP: "zip"}
_BY_NAME = {".gz": _GZIP, ".xz": _XZ, ".bz2": _BZ2}
PARQUET, FEATHER = b"PAR1", b"ARROW1"
_AS_CSV = "save the table as csv in UTF-8"
_OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"(\xb5/\xfd", "packed by Zstandard", "unpack it"),
    (b"7z\xbc\xaf'\x1c", "a 7-Zip archive", "unpack it"),
    (b"Rar!", "a RAR archive", "unpack it"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook of the old form", _AS_CSV),
    (b"<stata_dta>", "a Stata file", _AS_CSV),
    (b"$FL2", "an SPSS file", _AS_CSV),
    (b"$FL3", "an SPSS file", _AS_CSV),
    (bytes(12) + b"\xc2\xea\x81\x60", "a SAS file", _AS_CSV),
    (b"HEADER RECORD*******LIB", "a SAS transport file", _AS_CSV),
    (b"\x89HDF", "an HDF5 file", _AS_CSV),
    (b"SQLite format 3", "an SQLite database", _AS_CSV),
    (b"FEA1", "a Feather file of the first version", "write it again with a newer pandas, or " + _AS_CSV),
    (b"ORC", "an ORC file", "write it as Parquet"),
    (b"Obj\x01", "an Avro file", "write it as Parquet"),
    (b"\x93NUMPY", "a NumPy array", _AS_CSV),
    (b"RDX", "an R file", _AS_CSV),
    (b"X\n\x00\x00", "an R file", _AS_CSV),
    (b"%PDF", "a PDF document", _AS_CSV),
    (b"\x89PNG", "a picture", _AS_CSV),
    (b"\xff\xd8\xff", "a picture", _AS_CSV),
    (b"<!doctype html", "a web page", "fetch the file itself: a page stands where it needs a login"),
    (b"<html", "a web page", "fetch the file itself: a page stands where it needs a login"),
    (b"<?xml", "an XML document", _AS_CSV),
    (b"version https://git-lfs", "the address of a file that Git LFS keeps", "fetch the file itself: git lfs pull"),
)
_PICKLES = tuple(b"\x80" + bytes([version]) for version in (2, 3, 4, 5))
_ARCHIVES = {"[Content_Types].xml": "an Excel workbook", "mimetype": "a spreadsheet of OpenDocument"}


def begins(path: Path) -> bytes:
    """Return the first bytes of a file.

    Raises:
        DataError: when it cannot be read.
    """
    with readable(path), path.open("rb") as file:
        return file.read(_LOOKED_AT)


def is_packed(path: Path) -> bool:
    """Return whether a file holds another one, by its first bytes, or by its name where these say nothing."""
    return bool(_packing(path, begins(path)))


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, or the one that it holds: packed by gzip, xz or bzip2, or the only file of a zip.

    Raises:
        DataError: naming the format of a file that is no text; when a zip holds several files, or none.
    """
    first = begins(path)
    packing = _packing(path, first)
    if packing and not first.startswith(packing):
        raise DataError(
            f"{path}: is corrupt or cut off, or not packed by {_PACKED[packing]} as its name says (it begins with "
            f"{first[:12]!r}): take {path.suffix} off its name, or fetch the file again"
        )
    refuse_others(path, first)
    if packing == _ZIP:
        with zipfile.ZipFile(path) as archive, archive.open(_only_member(path, archive)) as file:
            yield _without_others(path, file)
    elif packing:
        openers: dict[bytes, Callable[[Path], object]] = {_GZIP: gzip.open, _XZ: lzma.open, _BZ2: bz2.open}
        with cast("IO[bytes]", openers[packing](path)) as file:
            yield _without_others(path, file)
    else:
        with path.open("rb") as file:
            yield file


def _packing(path: Path, first: bytes) -> bytes:
    found = next((magic for magic in _PACKED if first.startswith(magic)), b"")
    return found or _BY_NAME.get(path.suffix.lower(), b"")


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    # macOS puts what it knows of each file beside it.
    held = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
    names = [member.filename for member in held]
    for name, what in _ARCHIVES.items():
        if name in names:
            raise DataError(f"{path}: is {what} by its content, and no csv or Parquet file; {_AS_CSV}")
    if len(held) != 1:
        raise DataError(
            f"{path}: is a zip of {len(held)} files ({shortened(names, 3) or 'none'}), where one is read; unpack it, "
            "and name the file that holds the table"
        )
    if held[0].flag_bits & 1:
        raise DataError(f"{path}: is a zip with a password; unpack it, and name the file that it holds")
    return held[0]


def _without_others(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Return an unpacked file from its beginning, unless it is no text."""
    first = file.read(_LOOKED_AT)
    if first.startswith((PARQUET, FEATHER)):
        kind = "Parquet" if first.startswith(PARQUET) else "Feather"
        raise DataError(f"{path}: holds a {kind} file that is packed once more; unpack it")
    refuse_others(path, first)
    file.seek(0)
    return file


def refuse_others(path: Path, first: bytes) -> None:
    """Refuse a format that is not read, by its name.

    Args:
        path: the file, for messages.
        first: its first bytes, or those of the file that it holds.

    Raises:
        DataError: naming the format and a remedy.
    """
    bare = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, what, remedy in _OTHERS:
        if first.startswith(magic) or (magic[:1] == b"<" and bare.lower().startswith(magic)):
            raise DataError(f"{path}: is {what} by its first bytes, and no csv or Parquet file; {remedy}")
    # Files of Stata up to release 12 begin with their release, the order of bytes, and 1 0.
    if len(first) > 3 and 102 <= first[0] <= 115 and first[1] in (1, 2) and first[2:4] == b"\x01\x00":
        raise DataError(f"{path}: is a Stata file by its first bytes, and no csv or Parquet file; {_AS_CSV}")
    if first.startswith(_PICKLES):
        raise DataError(f"{path}: is a Python pickle by its first bytes, which is never opened; {_AS_CSV}")

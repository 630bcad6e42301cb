"""Locations of data files, a record of the files that a data set was read from, and errors of reading them."""

from __future__ import annotations

import csv
import lzma
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tune_vfl.errors import DataError
from tune_vfl.machine.passwords import hide_password

_ADDRESS = re.compile(r"[a-z][a-z0-9+]+://", re.IGNORECASE)

_opened: ContextVar[list[Path] | None] = ContextVar("opened", default=None)


@contextmanager
def recorded() -> Iterator[list[Path]]:
    """Collect, while the block runs, the files that :func:`find` and :func:`locate` return.

    Files that :func:`holds` looked for and did not find are collected too: if one appears later, what was loaded
    without it is out of date.
    """
    opened: list[Path] = []
    token = _opened.set(opened)
    try:
        yield opened
    finally:
        _opened.reset(token)


def _record(path: Path) -> Path:
    opened = _opened.get()
    if opened is not None:
        opened.append(path)
    return path


def find(root: Path, relative: str, hint: str = "") -> Path:
    """Return the file ``relative`` under the data root.

    Args:
        root: the data root.
        relative: the file's place under it, with forward slashes.
        hint: where the file can be had.

    Raises:
        DataError: saying which file to put where.
    """
    path = root / relative
    if not path.is_file():
        source = f" It can be had from {hint}." if hint else ""
        raise DataError(
            f"{path}: no such file; put {path.name} there, or point TUNE_VFL_DATA at the folder that holds "
            f"{relative}.{source}"
        )
    return _record(path)


def find_one(root: Path, relatives: Sequence[str], hint: str = "") -> Path:
    """Return the first existing file of several places; raises as :func:`find` if there is none."""
    return find(root, next((r for r in relatives if holds(root, r)), relatives[0]), hint)


def holds(root: Path, relative: str) -> bool:
    """Whether a file or folder exists. A missing one is recorded (see :func:`recorded`), as it may appear later."""
    path = root / relative
    there = path.exists()
    if not there:
        _record(path)
    return there


def find_folder(root: Path, relatives: Sequence[str], hint: str) -> Path:
    """Return the first existing one of several folders under the data root; it is not recorded as read.

    Raises:
        DataError: where none does, saying which archive to unpack where.
    """
    for relative in relatives:
        if holds(root, relative) and (root / relative).is_dir():
            return root / relative
    raise DataError(
        f"{root / relatives[0]}: no such folder; unpack the archive there, or point TUNE_VFL_DATA at the folder that "
        f"holds {relatives[0]}. It can be had from {hint}."
    )


def absolute(path: str, root: Path, *, folder: bool = False) -> Path:
    """Return the place of a user's file or folder: as given from the working directory, else under the data root.

    Raises:
        DataError: when neither exists.
    """
    if _ADDRESS.match(path):
        shown = hide_password(path)
        raise DataError(f"{shown}: is an address, and nothing is downloaded; fetch the file, and give its path")
    given = Path(path).expanduser()
    wanted, other = (Path.is_dir, Path.is_file) if folder else (Path.is_file, Path.is_dir)
    for candidate in (Path.cwd() / given, root / given):
        if wanted(candidate):
            return candidate.resolve()
    kinds = ("folder", "file") if folder else ("file", "folder")
    kind = f"is a {kinds[1]}, not a {kinds[0]}" if other(Path.cwd() / given) else f"no such {kinds[0]}"
    under = "" if given.is_absolute() else f" (looked in {Path.cwd()} and in {root})"
    # A line end in it is no line of the message, and a blank at an end is to be seen.
    shown = str(given) if path.isprintable() and path == path.strip() != "" else repr(path)
    raise DataError(f"{shown}: {kind}{under}; give the path of an existing {kinds[0]}")


def locate(path: str, root: Path, *, folder: bool = False) -> Path:
    """Return :func:`absolute`, and record the file or folder as read."""
    return _record(absolute(path, root, folder=folder))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of reading a file, compressed or not, into errors that name it.

    Raises:
        DataError: when it is corrupt, cut off, not text where text is read, or cannot be read.
    """
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise _corrupt(path, error) from error
    except UnicodeDecodeError as error:
        kind = "UTF-8" if error.encoding == "utf-8" else error.encoding
        raise DataError(
            f"{path}: is not {kind} text ({error.reason}); is it a csv? save it as csv in UTF-8, or say its "
            "`encoding`, such as cp1252 or utf-16"
        ) from error
    except UnicodeError as error:
        raise DataError(f"{path}: is no text of the `encoding` that is said ({error}); correct it") from error
    except csv.Error as error:
        raise DataError(f"{path}: is not a well-formed csv ({error}); check its quotes") from error
    except OSError as error:
        if error.errno is None:  # of gzip and bz2: the content is not theirs
            raise _corrupt(path, error) from error
        raise DataError(f"{path}: cannot be read ({error.strerror}); check it and its permissions") from error


def _corrupt(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: is corrupt or cut off ({error}); fetch the file again")

"""Write a file whole or not at all, or into what stands at its place."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tune_vfl.errors import UnwritableError
from tune_vfl.machine.removing import remove

_MOST_LINKS = 40  # that a system follows one after another
_STDOUT = 1


@contextmanager
def written_whole(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Yield a draft beside ``path`` to write to; it replaces ``path`` when the block ends without an error.

    Args:
        path: the file; a link, a pipe or a device of this name is replaced too.
        mode: its permissions; while it is written, its owner alone can read it.

    Raises:
        UnwritableError: when the place cannot be written; nothing is left behind then.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UnwritableError(f"{path}: cannot be written ({error}); choose another place") from error
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        draft.chmod(mode)
        try:
            draft.replace(path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            shutil.copyfile(draft, path)  # a file that is mounted by itself, as containers do, cannot be replaced
    finally:
        with suppress(OSError):
            remove(draft, path.parent)


@contextmanager
def written_out(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Yield a draft for a place that a user has named, which gets its content when the block ends without an error.

    A file is replaced whole, and so is the file that a link leads to; the link stays. What a pipe, a device and an open
    file under ``/dev/fd`` get is the content.

    Args:
        path: the place.
        mode: permissions of a file; None leaves those of the one that is there, and gives a new one the user's.

    Raises:
        UnwritableError: when the place cannot be written, or is a folder, a disk or a socket; nothing is left behind.
    """
    try:
        target = _led_to(path)
        if isinstance(target, int) or _takes_a_stream(target):
            with tempfile.TemporaryDirectory() as folder:
                draft = Path(folder, path.name)
                yield draft
                into = os.dup(target) if isinstance(target, int) else os.open(target, os.O_WRONLY)
                with draft.open("rb") as source, os.fdopen(into, "wb") as out:
                    shutil.copyfileobj(source, out)
            return
        kept = _mode_of(target) if mode is None else mode
        with written_whole(target, kept) as draft:
            yield draft
    except OSError as error:
        raise UnwritableError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from error


def is_stdout(path: Path) -> bool:
    """Return whether a path leads to what the standard output of this process is."""
    with suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(_STDOUT))
    return False


def _led_to(path: Path) -> Path | int:
    """Return the place that a path leads to, new or not, or the number of the open file that it stands for."""
    if path == Path("-"):
        raise OSError("write /dev/stdout for the output, or the whole path of a file of this name")
    if is_stdout(path):
        return _STDOUT
    for _ in range(_MOST_LINKS):
        if path.parent.resolve() == Path(f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _takes_a_stream(place: Path) -> bool:
    if not os.path.lexists(place):
        return False
    kind = place.stat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)):
        raise OSError("expected a file, a pipe or a terminal there, got a disk or a socket")
    return stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)


def _mode_of(place: Path) -> int:
    """Return the permissions of a file that may be written, and of a new one those that the user's mask leaves."""
    if not place.exists():
        mask = os.umask(0o077)  # there is no other way to read it
        os.umask(mask)
        return 0o666 & ~mask
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, "the file there is write-protected")
    return stat.S_IMODE(place.stat().st_mode)

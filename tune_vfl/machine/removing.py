"""The one place that deletes files and folders: this user's own, below a folder that the caller names."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def remove(path: Path, below: Path) -> None:
    """Delete a file, a folder with all that is in it, or a link; nothing where there is none of them.

    A link is deleted itself, and what it leads to stays. Of a folder that cannot be deleted whole, the rest is.

    Args:
        path: what to delete.
        below: a folder in which it lies, at any depth, when the links on the way to both are followed.

    Raises:
        OSError: when it lies elsewhere, or anything of it belongs to another user: nothing is deleted then; and when
            the system refuses.
    """
    place = path.parent.resolve() / path.name
    if path.name in ("", "..") or not place.parent.is_relative_to(below.resolve()):
        raise PermissionError(errno.EPERM, f"does not lie below {below}, and stays", str(path))
    try:
        is_folder = stat.S_ISDIR(place.lstat().st_mode)
    except FileNotFoundError:
        return
    inside = os.walk(place) if is_folder else ()
    if stranger := _of_others([place, *(Path(at, name) for at, *names in inside for name in (*names[0], *names[1]))]):
        raise PermissionError(errno.EPERM, f"{stranger} belongs to another user, and so it stays", str(path))
    if not is_folder:
        place.unlink(missing_ok=True)
        return
    shutil.rmtree(place, ignore_errors=True)
    if place.exists():
        shutil.rmtree(place)  # which says why something is left


def remove_empty(folder: Path, below: Path) -> None:
    """Delete a folder and those above it as far as they are empty; ``below``, in which it lies, stays."""
    with suppress(OSError):  # it holds something
        while below in folder.parents and not folder.is_symlink():
            folder.rmdir()
            folder = folder.parent


def _of_others(paths: Iterable[Path]) -> Path | None:
    """Return one that belongs to another user; None where none does."""
    for path in paths:
        with suppress(FileNotFoundError):  # gone meanwhile
            if path.lstat().st_uid != os.getuid():
                return path
    return None

"""Temporary files of processes that have ended, such as one that was killed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tune_vfl.machine.ray_folder import LOCK, PREFIX, is_in_use

_PYTHONS = ("python", "tune-vfl", "ray", "jupyter", "ipython", "pytest", "mlflow")  # beginnings of processes' names


def temporary_leftovers() -> list[Path]:
    """Return this user's temporary files and folders of tune-vfl that no process uses any more."""
    places = dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp")))  # noqa: S108 - looked at, nothing is made there
    return list(leftovers(found for place in places for found in sorted(place.glob(f"{PREFIX}*"))))


def leftovers(places: Iterable[Path]) -> Iterator[Path]:
    """Yield those of some temporary files and folders that no process uses any more.

    A folder with a lock is used while that is held. Of any other one it is unknown which process made it: each Python
    of this user that still runs, and is older than the last change in it, may have.
    """
    begun = _oldest_python()
    for place in places:
        try:
            held = place.lstat()
        except OSError:
            continue  # its process was faster
        if place.is_symlink() or held.st_uid != os.getuid():
            continue
        if not (is_in_use(place) if (place / LOCK).exists() else begun < held.st_mtime):
            yield place


def size_of(place: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; links are not followed."""
    if place.is_dir() and not place.is_symlink():
        return sum(Path(folder, name).lstat().st_size for folder, _, names in os.walk(place) for name in names)
    return place.lstat().st_size


def _oldest_python() -> float:
    """Return when the oldest Python of this user that still runs, this one excepted, was started."""
    import psutil

    started = []
    for process in psutil.process_iter():
        try:
            own = process.uids().real == os.getuid() and process.pid != os.getpid()
            if own and process.name().startswith(_PYTHONS):
                started.append(process.create_time())
        except psutil.Error:  # it has ended
            continue
    return min(started, default=float("inf"))

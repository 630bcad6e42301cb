"""The folder of a Ray that a search starts: short, of this user alone, and removed when the search ends.

Ray keeps sockets in it, whose paths the system limits to 107 bytes, and logs. Its default, ``/tmp/ray``, belongs to the
first user of a machine. Ray opens its folder to every user, so it stands in one that nobody else can enter.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.removing import remove

LONGEST = 38
"""Bytes of a folder in which the paths of Ray's sockets are not too long."""
LEAST_BYTES = 16 * 2**20
PREFIX = "tune-vfl-"
_DRAWN = 8  # letters that mkdtemp adds
_RAYS = "r"  # Ray's own folder in it
LOCK = "in-use"


class RayFolder:
    """A folder that exists until :meth:`remove`, or until another search finds that its process has ended.

    ``RAY_TMPDIR`` names another one, which is used as it is and not removed.

    Attributes:
        path: the folder, for Ray.

    Raises:
        UnreachableError: when no folder that is short enough can be written, or its disk is full.
    """

    def __init__(self) -> None:
        named = os.environ.get("RAY_TMPDIR")
        self._lock: int | None = None
        if named:
            _refuse_long(Path(named), "RAY_TMPDIR")
            _refuse_full(Path(named))
            self.path = Path(named)
            return
        parent = _parent()
        _remove_orphans(parent)
        _refuse_full(parent)
        private = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # mkdtemp: mode 0700
        self.path = private / _RAYS
        self.path.mkdir()
        # Locked before it has its name, by which other processes know that it may be tried.
        draft = private / f"{LOCK}.draft"
        self._lock = os.open(draft, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        draft.rename(private / LOCK)

    def remove(self) -> None:
        """Remove the folder with all that is in it, if it was made here."""
        if self._lock is not None:
            with suppress(OSError):  # the next search tries again
                remove(self.path.parent, self.path.parent.parent)
            os.close(self._lock)
            self._lock = None


def _parent() -> Path:
    """Return the first temporary folder that is short enough and can be written."""
    temporary = Path(tempfile.gettempdir())
    for place in (temporary, Path("/tmp")):  # noqa: S108 - the folder in it has a name that nobody can foresee
        if len(os.fsencode(place / PREFIX / _RAYS)) + _DRAWN <= LONGEST and os.access(place, os.W_OK | os.X_OK):
            return place
    _refuse_long(temporary, "TMPDIR")
    raise UnreachableError(f"no temporary folder can be written: neither {temporary} nor /tmp; set RAY_TMPDIR to one")


def _refuse_long(place: Path, name: str) -> None:
    length = len(os.fsencode(place))
    if length > LONGEST:
        raise UnreachableError(
            f"{name} is {length} bytes long ({place}), and Ray's sockets have room for {LONGEST}: set RAY_TMPDIR to a "
            "shorter folder of your own"
        )


def _refuse_full(place: Path) -> None:
    """Refuse a disk on which Ray would wait in vain for its own files."""
    with suppress(FileNotFoundError):
        free = shutil.disk_usage(place).free
        if free < LEAST_BYTES:
            raise UnreachableError(
                f"{place} has {free / 2**20:.0f} MiB free, and Ray needs {LEAST_BYTES // 2**20} for sockets and logs: "
                "make room there, or set RAY_TMPDIR to a folder of your own on another disk"
            )


def _remove_orphans(parent: Path) -> None:
    """Remove folders of this user whose process has ended without doing it."""
    for place in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not place.is_symlink() and place.stat().st_uid == os.getuid() and not is_in_use(place):
                remove(place, parent)


def is_in_use(place: Path) -> bool:
    """Return whether the process that made a folder still holds its lock.

    Raises:
        OSError: for a folder without a lock.
    """
    lock = os.open(place / LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False

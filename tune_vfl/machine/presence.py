"""Look at a path: a file or folder that this account may not see is an error, and not taken for a missing one."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tune_vfl.errors import UnreachableError

T = TypeVar("T")


def is_file(path: Path) -> bool:
    """Return whether a file is there, links followed.

    Raises:
        UnreachableError: when that cannot be known, as of a folder that this account may not search.
    """
    return _seen(path, lambda: stat.S_ISREG(path.stat().st_mode), False)


def listed(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted; nothing where it is no folder. Errors are those of :func:`is_file`."""
    return _seen(folder, lambda: sorted(folder.iterdir()), [])


def _seen(path: Path, look: Callable[[], T], nothing: T) -> T:
    try:
        return look()
    except (FileNotFoundError, NotADirectoryError):
        return nothing
    except OSError as error:
        raise UnreachableError(
            f"{path} cannot be looked at ({error.strerror or error}); free or change the place that TUNE_VFL_HOME (or "
            "TUNE_VFL_STORAGE, --storage, the spec's storage or tracking) names"
        ) from error

"""Write a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tune_vfl.errors import UnwritableError
from tune_vfl.machine.removing import remove


@contextmanager
def written_whole(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Yield a draft beside ``path`` to write to; it replaces ``path`` when the block ends without an error.

    Args:
        path: the file.
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
        draft.replace(path)
    finally:
        with suppress(OSError):
            remove(draft, path.parent)

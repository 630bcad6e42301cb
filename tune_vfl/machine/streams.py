"""Standard streams that take any text: ASCII alone shows the nearest letters, a closed stream nothing."""

from __future__ import annotations

import codecs
import io
import os
import sys
import unicodedata
from pathlib import Path

_STDERR = 2
_NEAREST = {"±": "+/-", "…": "...", "→": "->", "×": "x", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "’": "'"}


def accept_all_text() -> None:
    """Prepare stdout and stderr of this process; a second call changes nothing."""
    codecs.register_error("nearest", nearest)
    # A file must not get the number of a closed stream, to which programs of C would print.
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed when the process was started
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="nearest")


def nearest(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that an encoding lacks: the error handler for :func:`codecs.register_error`.

    Returns:
        ASCII letters, and the place where encoding goes on.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii, error.object[error.start : error.end])), error.end


def _ascii(letter: str) -> str:
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _NEAREST.get(letter) or plain or "?"

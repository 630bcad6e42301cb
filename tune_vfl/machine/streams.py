"""Standard streams that take any text: ASCII alone shows the nearest letters, a closed or full one loses it.

Hidden characters in text of others are escaped: on a terminal they would move the cursor, hide letters or turn them.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_STDERR = 2
_NEAREST = {"±": "+/-", "…": "...", "→": "->", "×": "x", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "’": "'"}

# Control characters but newline and tab (a terminal obeys ESC and the C1 controls), marks and overrides of the
# direction of writing, breaks of a line that only some programs see, and letters without a shape. Joiners, which
# scripts need, stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Return a text in which each hidden character is written as Python writes it; most texts have none.

    >>> print(visible("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class MessageStream(io.TextIOWrapper):
    """A stream for messages: one that cannot be written, on a full disk or to a reader that has gone, is lost."""

    def write(self, text: str) -> int:
        """Write a text, or lose it."""
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is left, or lose it; also when the interpreter ends, which would change its exit code."""
        with suppress(OSError):
            super().flush()


def tell(line: str) -> None:
    """Write a line to stderr; the work goes on where it cannot be written."""
    with suppress(OSError, ValueError):  # a full disk, a reader that has gone, a closed stream
        sys.stderr.write(f"{visible(line)}\n")
        sys.stderr.flush()


def complain(problems: Sequence[str], anchor: str) -> None:
    """Print problems on stderr, one sentence or a list, and the heading of docs/errors.md that says what to do."""
    if len(problems) == 1:
        tell(f"tune-vfl: {problems[0]}")
    else:
        tell(f"tune-vfl: {len(problems)} problems:")
        for problem in problems:
            tell(f"  - {problem}")
    tell(f"  see docs/errors.md#{anchor}")


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
    if type(sys.stderr) is io.TextIOWrapper and sys.stderr.fileno() == _STDERR:
        plain = os.fdopen(_STDERR, "wb", closefd=False)
        sys.stderr = MessageStream(plain, sys.stderr.encoding, "nearest", line_buffering=True)


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

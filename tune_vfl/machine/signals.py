"""Answer Ctrl-C and SIGTERM in words: what is kept, and how to go on.

Python runs the handler of a signal in the main thread, once that is back from compiled code: what waits there in
compiled code waits for two seconds at a time at most.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# SIGTERM is how a machine that is about to go away, a scheduler, or Ray stopping a job say that there is no time left.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PUTTING_BACK_SECONDS = 2.0
"""How long a block that a signal has ended may put things back before another signal is answered."""


class Interrupted(KeyboardInterrupt):
    """A signal ended what ran, and was answered with words already.

    Attributes:
        exit_code: what a shell reports after this signal: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class answered:  # noqa: N801 - reads as what it does to a block
    """Answer signals inside a block: write ``words()`` to stderr and raise :class:`Interrupted`.

    Of nested blocks the innermost answers; what was swallowed in the outer one is raised before the inner one begins.
    Outside the main thread, where signals cannot be handled, nothing changes.

    Args:
        words: says what is kept and how to go on. It must not wait for anything.
        stop: called at the first Ctrl-C instead, which then ends nothing; the second one and SIGTERM still do. It must
            not wait either.
    """

    def __init__(self, words: Callable[[], str], *, stop: Callable[[], None] | None = None) -> None:
        self._words, self._stop = words, stop
        self._before: dict[signal.Signals, Any] = {}
        self._hook_before: Callable[[Any], object] = sys.unraisablehook
        self._interrupted: Interrupted | None = None
        self._raised_at = -math.inf

    def __enter__(self) -> answered:
        if threading.current_thread() is threading.main_thread():
            outer = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
            if isinstance(outer, answered):
                outer.check()
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            sys.unraisablehook = self._hook_before
        if error is not self._interrupted:
            self.check(error)

    def check(self, cause: BaseException | None = None) -> None:
        """Raise again what a callback has swallowed, or a library has turned into an error of its own."""
        if self._interrupted is not None:
            raise self._interrupted from cause

    def _unraisable(self, swallowed: Any) -> None:
        """Print no traceback where Python itself swallows the interrupt: in a finalizer, or around a fork."""
        if swallowed.exc_value is not self._interrupted:
            self._hook_before(swallowed)

    def _handle(self, number: int, _frame: object) -> None:
        if number == signal.SIGINT and self._stop is not None:
            stop, self._stop = self._stop, None
            stop()
            return
        if self._interrupted is None:
            self._interrupted = Interrupted(number)
            with suppress(OSError):  # nobody reads
                os.write(2, f"{self._words()}\n".encode())  # sys.stderr may be in the middle of a line
        elif time.monotonic() - self._raised_at < PUTTING_BACK_SECONDS:
            return  # a second press must not end what puts a connection or a file back
        self._raised_at = time.monotonic()
        raise self._interrupted

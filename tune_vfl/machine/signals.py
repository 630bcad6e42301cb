"""Ctrl-C and SIGTERM: answered at once in every phase, with what is kept and how to go on.

Python runs the handler of a signal once the main thread is back from compiled code, and a library may set a handler of
its own: both happen while Ray starts. So a thread hears every signal too, and answers those that the main thread has
not answered after half a second.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# SIGTERM is how a machine that is about to go away, a scheduler, or Ray stopping a job say that there is no time left.
SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM))
# The thread that hears them.
LISTENER = "tune-vfl-signals"
_PATIENCE_SECONDS = 0.5
# What the command line gives itself to put things away, such as a lease, before it is gone.
LEAVING_SECONDS = 10.0


class Left(KeyboardInterrupt):
    """A signal ended what ran, and was answered with words already.

    Attributes:
        exit_code: what a shell reports after this signal: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@dataclass
class _Block:
    words: Callable[[], str]
    stop: Callable[[], None] | None
    heard: bool = False


class _Signals:
    """What this process is told, and what it answers, from the beginning of the outermost block to its end."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.left: Left | None = None
        self.leaving = False
        self._lock = threading.RLock()  # a handler may interrupt a handler
        # Signals by number: that came, that each of the two has answered, that the main thread has yet to notice were
        # answered, and that the thread sent itself.
        self._told: Counter[int] = Counter()
        self._by_main: Counter[int] = Counter()
        self._by_thread: Counter[int] = Counter()
        self._late: Counter[int] = Counter()
        self._sent: Counter[int] = Counter()
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._hear_swallowed
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(reading,), name=LISTENER, daemon=True).start()

    def end(self) -> None:
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writing)  # the thread ends with it
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._unraisable

    def _hear_swallowed(self, what: sys.UnraisableHookArgs) -> None:
        """Say nothing of a signal that met a callback which swallows what is raised: the thread rings again."""
        if not isinstance(what.exc_value, Left):
            self._unraisable(what)

    def hear(self, number: int, _frame: object) -> None:
        """Answer in the main thread."""
        # Not for ever: the thread may wait for a lock of the main thread's own, to write a line.
        if self._lock.acquire(timeout=2 * _PATIENCE_SECONDS):
            try:
                if self._late[number]:
                    self._late[number] -= 1
                elif self.left is None:
                    self._by_main[number] += 1
                    self._answer(number)
            finally:
                self._lock.release()
        self._leave()

    def _leave(self) -> None:
        if self.left is not None:
            raise self.left

    def _listen(self, reading: int) -> None:
        """Answer in a thread what the main thread does not hear."""
        with os.fdopen(reading, "rb", buffering=0) as told:
            while byte := told.read(1):
                number = byte[0]
                if self._sent[number]:
                    self._sent[number] -= 1
                elif number in SIGNALS:
                    self._told[number] += 1
                    self._make_sure(number, self._told[number])

    def _make_sure(self, number: int, count: int) -> None:
        """Answer the signal of this count, if nobody has; and see to it that the main thread leaves."""
        time.sleep(_PATIENCE_SECONDS)
        with self._lock:
            if self._by_main[number] + self._by_thread[number] < count and self.left is None and self.blocks:
                self._by_thread[number] += 1
                self._late[number] += 1
                if self._answer(number):
                    self._sent[number] += 1
                    _thread.interrupt_main(signal.Signals(number))
        if self.left is not None:
            self._see_it_out(number, self.left)

    def _see_it_out(self, number: int, left: Left) -> None:
        """Ring again while the main thread goes on as if nothing had been: some callbacks swallow what is raised."""
        until = time.monotonic() + LEAVING_SECONDS
        while self.blocks and time.monotonic() < until:
            time.sleep(4 * _PATIENCE_SECONDS)
            if not self.leaving:
                self._sent[number] += 1
                _thread.interrupt_main(signal.Signals(number))
        if _goes_for_good:
            time.sleep(max(0.0, until - time.monotonic()))
            os._exit(left.exit_code)

    def _answer(self, number: int) -> bool:
        """Answer, and say whether the process is to be left."""
        block = self.blocks[-1]
        if block.stop is not None and number == signal.SIGINT and not block.heard:
            block.heard = True
            block.stop()
            return False
        if self.left is None:  # once: whoever presses again while things are put away has read it
            self.left = Left(number)
            _write(block.words())
        return True


_signals: _Signals | None = None
_goes_for_good = False


@contextmanager
def answered(words: Callable[[], str], *, stop: Callable[[], None] | None = None) -> Iterator[None]:
    """Answer signals inside the block: say ``words()`` on stderr and raise :class:`Left`.

    Of nested blocks the innermost answers. Outside the main thread signals cannot be handled: nothing is changed there.

    Args:
        words: what is kept and how to go on. It must not wait for anything.
        stop: called at the first Ctrl-C instead, which then ends nothing; the second one and SIGTERM still do. It must
            not wait either.
    """
    global _signals  # noqa: PLW0603 - signals belong to the whole process
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outermost = _signals is None
    here = _signals = _signals or _Signals()
    here.blocks.append(_Block(words, stop))
    for number in SIGNALS:
        signal.signal(number, here.hear)
    try:
        yield
    except BaseException as error:
        if here.left is None:
            raise
        here.leaving = True
        # What the signal cut off, such as an import or the start of Ray, may have made another error of it.
        raise here.left from (None if error is here.left else error)
    finally:
        here.blocks.pop()
        if outermost:
            _signals = None
            here.end()


def go_for_good() -> None:
    """Let a signal end this process :data:`LEAVING_SECONDS` after it was answered, whatever is still being put away."""
    global _goes_for_good  # noqa: PLW0603 - as above
    _goes_for_good = True


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put the handlers of signals back after a block in which a library sets some of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads
        try:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        except RuntimeError:  # the signal came in the middle of another line
            os.write(2, f"\n{text}\n".encode())

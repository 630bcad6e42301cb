"""Ctrl-C: the first lets running packs finish, the second leaves at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

# A job that Ray stops gets SIGTERM first: it ends as after Ctrl-C.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first signal inside the block and raise KeyboardInterrupt at the second.

    Outside the main thread signals cannot be handled: nothing is changed there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = 0

    def hear(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        if heard > 1:
            raise KeyboardInterrupt
        stop()

    before = {s: signal.signal(s, hear) for s in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

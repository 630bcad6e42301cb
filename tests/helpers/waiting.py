"""Waiting that a signal ends."""

import time


def nap(seconds: float) -> None:
    """Sleep in small pieces, so that a signal is served at once."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))

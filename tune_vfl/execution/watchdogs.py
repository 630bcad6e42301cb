"""Watchdogs of a run: they end it when Ray has died, the lease is lost, or a signal came."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ray.tune import Callback

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.network import listens
from tune_vfl.machine.runtime import strain
from tune_vfl.machine.streams import tell

_EVERY_SECONDS = 10.0
# Seconds by which a pack may exceed the limits of its trials: to load its libraries, and to end.
GRACE_SECONDS = 60.0
# A node that is only slow to answer comes back before this many looks.
_LOOKS = 3
# Ray waits for its head for a minute, in calls that nothing interrupts, and then aborts this process.
_HEAD_EVERY_SECONDS, HEAD_LOOKS = 5.0, 5
_DIED = (
    "Ray on this machine died, so no worker can be started; what was finished is kept, and the same command or "
    "'tune-vfl resume' goes on with a new Ray."
)


class RayDiedError(UnreachableError):
    """Ray's node under the driver has died."""

    anchor = "ray-died"


def own_node_lives() -> bool:
    """Return whether Ray's node of this driver is alive."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())


@contextmanager
def head_watched(
    answers: Callable[[], bool] | None = None,
    every: float = _HEAD_EVERY_SECONDS,
    end: Callable[[], object] | None = None,
) -> Iterator[None]:
    """End this process in words when Ray's head goes away during the block.

    Calls of Ray wait for a head in vain and cannot be interrupted, and after a minute Ray aborts the process. So this
    one leaves before, as it would by SIGKILL, which every search survives.

    Args:
        answers: returns whether the head accepts connections; None asks that of this process's Ray.
        every: seconds between two looks; after :data:`HEAD_LOOKS` without an answer in a row it is gone.
        end: ends the process; None prints what happened and exits with the code of :class:`RayDiedError`.
    """
    over = threading.Event()
    watch = threading.Thread(
        target=_watch_head, args=(answers or _own_head(), every, end or _leave, over), name="head-watch", daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch_head(answers: Callable[[], bool], every: float, end: Callable[[], object], over: threading.Event) -> None:
    missed = 0
    while missed < HEAD_LOOKS:
        if over.wait(every):
            return
        missed = 0 if answers() else missed + 1
    end()


def _own_head() -> Callable[[], bool]:
    import ray

    address = ray.get_runtime_context().gcs_address
    return lambda: listens(address)


def _leave() -> None:
    tell(f"tune-vfl: {_DIED}{strain()}")
    os._exit(RayDiedError.exit_code)


class NodeWatch(Callback):  # type: ignore[misc]
    """Ends a run whose own Ray node is dead, instead of waiting for workers that cannot start.

    Args:
        lives: returns whether the node is alive.
        every: seconds between two looks.
    """

    def __init__(self, lives: Callable[[], bool] = own_node_lives, every: float = _EVERY_SECONDS) -> None:
        self._lives, self._every = lives, every
        self._next = time.monotonic() + every
        self._dead = 0

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Check from time to time.

        Raises:
            RayDiedError: when the node was dead at several checks in a row.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        self._dead = 0 if self._lives() else self._dead + 1
        if self._dead >= _LOOKS:
            raise RayDiedError(f"{_DIED}{strain()}")


class DriverCallback(Callback):  # type: ignore[misc]
    """A callback that is never restored, although Tune pickles it with the experiment."""

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Pickle as a callback that does nothing."""
        return (Callback, ())


class StepChecks(DriverCallback):
    """Checks at every step of Tune for a lost lease or a missed signal.

    Args:
        checks: called at every step; each returns at once, or raises an exception to end the run.
    """

    def __init__(self, checks: Sequence[Callable[[], object]]) -> None:
        self._checks = checks

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Make all checks."""
        for check in self._checks:
            check()

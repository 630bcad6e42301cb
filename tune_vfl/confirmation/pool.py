"""Runs calls in Ray's workers, as many at once as there is room for, and hands out answers as they come."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tune_vfl.errors import UnreachableError
from tune_vfl.search import watchdogs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tune_vfl.spec import Resources

K = TypeVar("K")

_LOOK_EVERY_SECONDS = 10.0


class Died:
    """Stands for the answer of a call whose worker died."""


class Hung(Died):
    """Stands for the answer of a call that was over its time, and whose worker was killed."""


class _Flight(NamedTuple):
    """A call that was handed to Ray, and when it must have answered."""

    key: Any
    due: float


class Pool(Generic[K]):
    """Calls of one function.

    Args:
        function: runs in a worker; what it raises is raised here.
        resources: what one call takes.
        room: asked again and again how many calls may run at once.
        stopped: asked before each call begins; once it says yes, calls that run still answer and none begins.
    """

    def __init__(
        self, function: Callable[..., Any], resources: Resources, room: Callable[[], int], stopped: Callable[[], bool]
    ) -> None:
        import ray

        # A worker that dies is told of here and not hidden by Ray's own retries.
        self._call = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu, max_retries=0)(function)
        self._room, self._stopped = room, stopped

    def run(
        self, calls: Sequence[tuple[K, tuple[Any, ...]]], seconds: Callable[[K], float | None] = lambda _: None
    ) -> Iterator[tuple[K, Any]]:
        """Run calls and yield each one's key with its answer, or :class:`Died`, in the order in which they end.

        Args:
            calls: keys and arguments.
            seconds: how long a call may take; one that is stuck in compiled code hears no alarm of its own.

        Raises:
            UnreachableError: when Ray itself died.
        """
        import ray

        waiting = list(calls)
        flying: dict[Any, _Flight] = {}
        while True:
            while waiting and len(flying) < self._room() and not self._stopped():
                key, arguments = waiting.pop(0)
                flying[self._call.remote(*arguments)] = _Flight(key, _due(seconds(key)))
            if not flying:
                return
            done, _ = ray.wait(list(flying), timeout=_LOOK_EVERY_SECONDS)
            if not done and not watchdogs.own_node_lives():
                raise UnreachableError(
                    "Ray on this machine died under the confirmation; what was finished is kept, and the same command "
                    "goes on with a new Ray (is the machine short of memory? run 'tune-vfl doctor')"
                )
            for reference in done:
                yield flying.pop(reference).key, _answer(reference)
            for reference in [r for r, flight in flying.items() if flight.due < time.monotonic()]:
                ray.cancel(reference, force=True)
                yield flying.pop(reference).key, Hung()


def _due(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds + watchdogs.GRACE_SECONDS


def _answer(reference: Any) -> Any:
    import ray
    from ray.exceptions import RayTaskError

    try:
        return ray.get(reference)
    except RayTaskError:
        raise
    except ray.exceptions.RayError:
        return Died()

"""A pool of Ray tasks with a changing capacity, which yields results in order of completion."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tune_vfl.errors import UnreachableError
from tune_vfl.execution import watchdogs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tune_vfl.spec import Resources

K = TypeVar("K")

_LOOK_EVERY_SECONDS = 10.0


class Died:
    """The result of a call whose worker died."""


class Hung(Died):
    """The result of a call whose worker was killed after a timeout."""


class _Flight(NamedTuple):
    """A submitted call and its deadline."""

    key: Any
    due: float


class Pool(Generic[K]):
    """Parallel calls of one function in Ray workers.

    Args:
        function: runs in a worker; its exceptions are raised here.
        resources: the Ray resources of one call.
        room: returns the current limit of parallel calls.
        stopped: checked before each call; once true, running calls finish and no new one starts.
    """

    def __init__(
        self, function: Callable[..., Any], resources: Resources, room: Callable[[], int], stopped: Callable[[], bool]
    ) -> None:
        import ray

        # Ray's own retries would hide the death of a worker.
        self._call = ray.remote(num_cpus=resources.cpu, num_gpus=resources.gpu, max_retries=0)(function)
        self._room, self._stopped = room, stopped

    def run(
        self, calls: Sequence[tuple[K, tuple[Any, ...]]], seconds: Callable[[K], float | None] = lambda _: None
    ) -> Iterator[tuple[K, Any]]:
        """Run calls and yield each key with its result, :class:`Died` or :class:`Hung`, in order of completion.

        Args:
            calls: keys and arguments.
            seconds: the timeout of a call, enforced here: a worker stuck in compiled code cannot enforce its own.

        Raises:
            UnreachableError: when the Ray node died.
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

"""Notice what Tune itself would wait for for ever.

Ray under the driver died, another process has the study now, or a pack does not come back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ray.tune import Callback

from tune_vfl.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tune_vfl.ledger.lease import Lease
    from tune_vfl.search.searcher import LedgerSearcher

_EVERY_SECONDS = 10.0
# Beyond its trials' own limits a pack may take so long: to load its libraries, to wait for other workers, to end.
GRACE_SECONDS = 60.0
# A node that is only slow to answer comes back before this many looks.
_LOOKS = 3


class RayDiedError(UnreachableError):
    """The Ray that the driver hangs on is gone."""


def own_node_lives() -> bool:
    """Return whether the node that this driver hangs on is alive."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())


class NodeWatch(Callback):  # type: ignore[misc]
    """Ends a search whose own Ray node is dead, instead of waiting for workers that nobody can start.

    Args:
        lives: whether the node is alive.
        every: seconds between two looks.
    """

    def __init__(self, lives: Callable[[], bool] = own_node_lives, every: float = _EVERY_SECONDS) -> None:
        self._lives, self._every = lives, every
        self._next = time.monotonic() + every
        self._dead = 0

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Look from time to time.

        Raises:
            RayDiedError: when the node was dead at several looks in a row.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        self._dead = 0 if self._lives() else self._dead + 1
        if self._dead >= _LOOKS:
            raise RayDiedError(
                "Ray on this machine died under the search, so no worker can be started; what was finished is kept, "
                "and 'tune-vfl resume' goes on with a new Ray (is the machine short of memory? run 'tune-vfl doctor')"
            )


class _StaysHere(Callback):  # type: ignore[misc]
    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Travel as nothing: Tune pickles it once, for a restoring that never happens."""
        return (Callback, ())


class LeaseWatch(_StaysHere):
    """Ends a search whose study another process has taken over, also while there is nothing to write.

    Args:
        lease: the study's.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Look at every step; it asks nobody.

        Raises:
            LeaseLostError: when it is lost; the message says who has it.
        """
        self._lease.check()


class PackWatch(_StaysHere):
    """Kills the worker of a pack that is long over its time: one that is stuck in compiled code hears no alarm.

    Args:
        searcher: knows how long a pack may take, and what is told of one that was given up.
        say: is told what is done.
        kill: ends the process of a worker.
        now: the time, in seconds.
    """

    def __init__(
        self,
        searcher: LedgerSearcher,
        say: Callable[[str], None],
        kill: Callable[[Any], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._searcher, self._say, self._kill, self._now = searcher, say, kill or _kill, now
        self._due: dict[Any, float] = {}

    def on_trial_start(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Start the clock: the pack has its worker now."""
        allowed = self._searcher.seconds_allowed(trial.trial_id)
        if allowed is not None:
            self._due[trial] = self._now() + allowed + GRACE_SECONDS

    def on_trial_complete(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock."""
        self._due.pop(trial, None)

    def on_trial_error(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock."""
        self._due.pop(trial, None)

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Look at every step. The ledger is told first: if this driver dies in between, nothing is owed twice."""
        for trial in [t for t, due in self._due.items() if due < self._now()]:
            del self._due[trial]
            count = self._searcher.give_up(trial.trial_id)
            what = "it ended as timeout" if count == 1 else f"its {count} trials are asked again one by one"
            self._say(f"a pack did not come back in its time, stuck in compiled code; {what}, and its worker is killed")
            self._kill(trial.temporary_state.ray_actor)


def _kill(worker: Any) -> None:
    import ray

    if worker is not None:
        ray.kill(worker)

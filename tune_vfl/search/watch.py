"""Notice what ends a search from outside: Ray under the driver died, or another process has the study now.

Tune itself would wait for ever.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ray.tune import Callback

from tune_vfl.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tune_vfl.ledger.lease import Lease

_EVERY_SECONDS = 10.0
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


class LeaseWatch(Callback):  # type: ignore[misc]
    """Ends a search whose study another process has taken over, also while there is nothing to write.

    Args:
        lease: the study's.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Travel as nothing: Tune pickles it once, for a restoring that never happens, and the lease stays here."""
        return (Callback, ())

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Look at every step; it asks nobody.

        Raises:
            LeaseLostError: when it is lost; the message says who has it.
        """
        self._lease.check()

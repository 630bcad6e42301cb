"""Why the worker of a pack failed: a crash, a timeout, a lost node, or a machine without memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ray.exceptions import OutOfMemoryError

from tune_vfl.execution.losses import Cause
from tune_vfl.execution.watchdogs import DriverCallback

if TYPE_CHECKING:
    from tune_vfl.execution.pack_searcher import PackSearcher

NODE_SECONDS = 30.0
"""How long Ray may take to declare a node dead."""


def live_nodes() -> frozenset[str]:
    """Return the ids of the cluster's nodes that are alive."""
    import ray

    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])


class WorkerFailures(DriverCallback):
    """Reports failed workers to the searcher, with the cause.

    A worker ends itself when a pack exceeds its time limit (see :mod:`trainables.base`), so a worker that fails after
    that has timed out. A worker of a cluster may fail before Ray misses its node, which is waited for.

    Args:
        searcher: of the packs.
        say: prints a message.
        nodes: returns the nodes that are alive.
        now: returns the time, in seconds.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        searcher: PackSearcher,
        say: Callable[[str], None],
        nodes: Callable[[], frozenset[str]] = live_nodes,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._searcher, self._say, self._nodes, self._now, self._sleep = searcher, say, nodes, now, sleep
        self._started: dict[str, float] = {}
        self._nodes_at_start: dict[str, frozenset[str]] = {}
        self._last_nodes = nodes()

    def on_trial_start(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Start the clock of a pack."""
        self._last_nodes = self._nodes()
        self._started[trial.trial_id] = self._now()
        self._nodes_at_start[trial.trial_id] = self._last_nodes

    def on_trial_complete(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock."""
        self._started.pop(trial.trial_id, None)
        self._nodes_at_start.pop(trial.trial_id, None)

    def on_trial_error(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock, and report the cause of the failure."""
        pack = trial.trial_id
        limit, begun = self._searcher.time_limit(pack), self._started.get(pack, self._now())
        cause: Cause = "crash"
        if limit is not None and self._now() - begun >= limit:
            cause = "timeout"
        elif self._lost_node(self._nodes_at_start.get(pack, self._last_nodes)):
            cause = "node"
        self.on_trial_complete(iteration, trials, trial)
        count = self._searcher.fail(trial.trial_id, cause)
        if cause == "timeout" and count:
            then = "it ended as timeout" if count == 1 else f"its {count} trials are asked again one by one"
            self._say(f"a pack exceeded its time limit, stuck in compiled code; its worker was ended, and {then}")

    def _lost_node(self, before: frozenset[str]) -> bool:
        """Return whether a node is gone, once Ray had time to notice; a single node runs the driver too."""
        until = self._now() + (NODE_SECONDS if len(before) > 1 else 0)
        while not before - self._nodes():
            if self._now() >= until:
                return False
            self._sleep(1)
        return True


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether Ray's memory monitor ended a worker, after which Tune ends its whole run."""
    while error is not None and not isinstance(error, OutOfMemoryError):
        error = error.__cause__
    return error is not None

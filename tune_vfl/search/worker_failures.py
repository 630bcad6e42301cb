"""Why the worker of a pack failed: a crash, a timeout, a lost node, or a machine without memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ray.exceptions import OutOfMemoryError

from tune_vfl.search.watchdogs import DriverCallback

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Cause = Literal["crash", "timeout", "node", "memory"]

NODE_SECONDS = 30.0
"""How long Ray may take to declare a node dead."""


class Packs(Protocol):
    """The packs of a search, by the ids of Tune's trials."""

    def time_limit(self, trial_id: str, /) -> float | None:
        """Return how many seconds a running pack may take; None without a limit."""

    def fail(self, trial_id: str, cause: Cause, /) -> int:
        """Tell that the worker of a pack has failed; return how many trials the pack had."""


def live_nodes() -> frozenset[str]:
    """Return the ids of the cluster's nodes that are alive."""
    import ray

    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])


class WorkerFailures(DriverCallback):
    """Tells a searcher which of its packs have lost their worker, and why.

    A worker ends itself when a pack exceeds its time limit (see :mod:`trainables.base`), so a worker that fails after
    that has timed out. A worker of a cluster may fail before Ray misses its node, so that a crash there is told late.

    Args:
        searcher: of the packs.
        say: is told what a person should know.
        nodes: returns the nodes that are alive.
        now: returns the time, in seconds.
    """

    def __init__(
        self,
        searcher: Packs,
        say: Callable[[str], None],
        nodes: Callable[[], frozenset[str]] = live_nodes,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._searcher, self._say, self._nodes, self._now = searcher, say, nodes, now
        self._started: dict[str, float] = {}
        self._nodes_at_start: dict[str, frozenset[str]] = {}
        self._last_nodes = nodes()
        self._undecided: dict[str, float] = {}

    def on_trial_start(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Start the clock of a pack: it has its worker now."""
        self._last_nodes = self._nodes()
        self._started[trial.trial_id] = self._now()
        self._nodes_at_start[trial.trial_id] = self._last_nodes

    def on_trial_complete(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock."""
        self._forget(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Tell the cause of the failure, or wait until it is known."""
        pack = trial.trial_id
        if self._exceeded(pack):
            self._fail(pack, "timeout")
        elif self._lost_node(pack):
            self._fail(pack, "node")
        elif len(self._nodes_before(pack)) > 1:
            self._undecided[pack] = self._now() + NODE_SECONDS
        else:
            self._fail(pack, "crash")

    def on_step_begin(self, iteration: int, trials: Collection[Any], **info: Any) -> None:
        """Tell causes that are known by now."""
        for pack, until in list(self._undecided.items()):
            if self._lost_node(pack):
                self._fail(pack, "node")
            elif self._now() >= until:
                self._fail(pack, "crash")

    def close(self) -> None:
        """Tell the causes that are left when Tune has ended."""
        for pack in list(self._undecided):
            self._fail(pack, "node" if self._lost_node(pack) else "crash")

    def _exceeded(self, pack: str) -> bool:
        limit = self._searcher.time_limit(pack)
        return limit is not None and self._now() - self._started.get(pack, self._now()) >= limit

    def _nodes_before(self, pack: str) -> frozenset[str]:
        return self._nodes_at_start.get(pack, self._last_nodes)

    def _lost_node(self, pack: str) -> bool:
        return bool(self._nodes_before(pack) - self._nodes())

    def _fail(self, pack: str, cause: Cause) -> None:
        self._forget(pack)
        count = self._searcher.fail(pack, cause)
        if cause == "timeout" and count:
            then = "it ended as timeout" if count == 1 else f"its {count} trials are asked again one by one"
            self._say(f"a pack exceeded its time limit, stuck in compiled code; its worker was ended, and {then}")

    def _forget(self, pack: str) -> None:
        for noted in (self._started, self._nodes_at_start, self._undecided):
            noted.pop(pack, None)


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether Ray's memory monitor has ended a worker, which makes Tune give up a whole run."""
    while error is not None and not isinstance(error, OutOfMemoryError):
        error = error.__cause__
    return error is not None

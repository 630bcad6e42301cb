"""Why the worker of a pack failed: a crash, a timeout, a lost node, or a machine without memory."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ray.exceptions import ActorUnavailableError, OutOfMemoryError

from tune_vfl.search.watchdogs import DriverCallback

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Cause = Literal["crash", "timeout", "node", "memory"]


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
    that has timed out.

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

    def on_trial_start(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Start the clock of a pack: it has its worker now."""
        self._last_nodes = self._nodes()
        self._started[trial.trial_id] = self._now()
        self._nodes_at_start[trial.trial_id] = self._last_nodes

    def on_trial_complete(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock."""
        self._started.pop(trial.trial_id, None)
        self._nodes_at_start.pop(trial.trial_id, None)

    def on_trial_error(self, iteration: int, trials: Collection[Any], trial: Any, **info: Any) -> None:
        """Stop the clock, and tell the cause of the failure."""
        cause = self._cause(trial)
        self.on_trial_complete(iteration, trials, trial)
        count = self._searcher.fail(trial.trial_id, cause)
        if cause == "timeout" and count:
            then = "it ended as timeout" if count == 1 else f"its {count} trials are asked again one by one"
            self._say(f"a pack exceeded its time limit, stuck in compiled code; its worker was ended, and {then}")

    def _cause(self, trial: Any) -> Cause:
        limit = self._searcher.time_limit(trial.trial_id)
        if limit is not None and self._now() - self._started.get(trial.trial_id, self._now()) >= limit:
            return "timeout"
        before = self._nodes_at_start.get(trial.trial_id, self._last_nodes)
        if isinstance(_error_of(trial), ActorUnavailableError) or before - self._nodes():
            return "node"
        return "crash"


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether Ray's memory monitor has ended a worker, which makes Tune give up a whole run."""
    while error is not None and not isinstance(error, OutOfMemoryError):
        error = error.__cause__
    return error is not None


def _error_of(trial: Any) -> BaseException | None:
    """Return the exception that Tune has kept of a trial; None where it could not, as on a full disk."""
    try:
        error = pickle.loads(Path(trial.pickled_error_file).read_bytes())  # noqa: S301 - written by this process
    except (OSError, TypeError):
        return None
    return error if isinstance(error, BaseException) else None

"""The policy of retries for jobs whose worker failed, the same for everything that workers measure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from tune_vfl.outcome import Outcome

if TYPE_CHECKING:
    from tune_vfl.records.rows import Lost

Cause = Literal["crash", "timeout", "node", "memory"]
"""Why a worker failed: its process died, it exceeded its time limit, its machine went away, or that had no memory."""

MAX_WORKER_LOSSES = 3
"""A setting whose worker died this often is not tried again: it may be what kills the worker."""
MAX_NODE_LOSSES = 10
"""Nor is one whose machine went away this often: it may be what takes the machine down."""
MAX_LOSSES_IN_A_ROW = 4 * MAX_WORKER_LOSSES
"""Where workers fail this often without an answer between them, none can run, and the run ends."""

# A pack that did not fit into memory is halved until it fits, or is a single setting.
_MOST: Mapping[Lost, float] = {"worker": MAX_WORKER_LOSSES, "node": MAX_NODE_LOSSES, "memory": math.inf}
_REASONS: Mapping[Cause, str] = {
    "crash": "its worker process died",
    "timeout": "its worker did not come back, stuck in compiled code, and was killed",
    "node": "the machine that it ran on went away",
    "memory": "its worker was ended because the machine ran out of memory",
}


class Loss(NamedTuple):
    """A worker that failed with a job.

    Attributes:
        cause: why.
        settings: the number of settings in the job; another measurement counts as one.
        minutes: the time limit of a setting; None without a limit.
    """

    cause: Cause
    settings: int
    minutes: float | None

    @property
    def counts_as(self) -> Lost:
        """The kind of the loss; losses of one kind are counted together."""
        if self.cause == "node":
            return "node"
        return "memory" if self.cause == "memory" and self.settings > 1 else "worker"

    @property
    def together(self) -> int:
        """The largest number of its settings that are tried again in one job.

        All where the machine went away, half where memory was short; else each alone, so that none can harm another.
        """
        if self.cause == "node":
            return self.settings
        return -(-self.settings // 2) if self.cause == "memory" else 1

    def outcome(self, times: int) -> Outcome:
        """Return the end of one of its settings; ``preempted`` means that it is tried again.

        Args:
            times: how often the setting was lost in this way, this loss included.
        """
        reason = _REASONS[self.cause]
        if self.cause == "timeout" and self.settings == 1:
            return Outcome.failed("timeout", f"{reason}, over trial_minutes = {self.minutes}")
        if times < _MOST[self.counts_as]:
            return Outcome.failed("preempted", reason)
        if self.cause == "memory":
            return Outcome.failed("oom", f"{reason}, {times} times")
        return Outcome.failed("error", f"{reason} {times} times")

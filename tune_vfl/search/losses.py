"""Why a pack was lost: its worker crashed, its node went away, or the machine ran out of memory.

Tune tells its searcher only that a pack was lost. It asks its scheduler first, which is where the reason can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ray.tune.schedulers import FIFOScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

Cause = Literal["crash", "node", "memory"]

# How the pinned Ray says it; tests/faults holds this against the real thing.
_NODE_IS_GONE = "node has died"
_NO_MEMORY = "running low on memory"


def cause_of(error: BaseException | None, text: str) -> Cause:
    """Return why an actor ended.

    Args:
        error: what Ray raised, where Tune has kept it.
        text: the message.
    """
    from ray.exceptions import ActorUnavailableError, RayActorError

    if _NO_MEMORY in text:
        return "memory"
    preempted = isinstance(error, RayActorError) and error.preempted
    # An actor that cannot be reached is on a node that was cut off or killed: one that crashed is told as dead.
    if preempted or isinstance(error, ActorUnavailableError) or _NODE_IS_GONE in text:
        return "node"
    return "crash"


class LossReader(FIFOScheduler):  # type: ignore[misc]
    """Starts packs in the order in which they are asked, and says why one was lost before anybody else hears of it.

    Args:
        tell: is given the pack's id and the cause.
    """

    def __init__(self, tell: Callable[[str, Cause], None]) -> None:
        super().__init__()
        self._tell = tell

    def __reduce__(self) -> tuple[type[FIFOScheduler], tuple[()]]:
        """Travel as a plain scheduler: Tune pickles it once, for a restoring that never happens."""
        return (FIFOScheduler, ())

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Read why."""
        self._tell(trial.trial_id, cause_of(trial.get_pickled_error(), _message(trial)))


def _message(trial: Any) -> str:
    try:
        return Path(trial.error_file).read_text(encoding="utf-8", errors="replace")
    except (OSError, TypeError):  # a full disk: the reason is lost, the pack is not
        return ""

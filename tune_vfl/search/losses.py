"""Why a pack was lost: its worker crashed, its node went away, or the machine ran out of memory.

Tune tells its searcher only that a pack was lost. It asks its scheduler first, which is where the reason can be read.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import tune_controller
from ray.tune.schedulers import FIFOScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Cause = Literal["crash", "node", "memory"]

# How the pinned Ray says it, held against the real thing by tests/faults: of most of Ray's errors Tune keeps the text
# alone. An actor that cannot be reached is on a node that was cut off or killed; one that crashed is told as dead.
_NODE_IS_GONE = ("its node has died", "is temporarily unavailable")
_NO_MEMORY = "running low on memory"


def cause_of(text: str) -> Cause:
    """Return why an actor ended, from what Ray says of it."""
    if _NO_MEMORY in text:
        return "memory"
    return "node" if any(says in text for says in _NODE_IS_GONE) else "crash"


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
        self._tell(trial.trial_id, cause_of(_message(trial)))


class SurvivingManager(RayActorManager):  # type: ignore[misc]
    """Tells Tune that a worker has died when Ray's memory monitor has ended it.

    Ray says that with an error of its own kind, at which Tune's manager of workers gives up the whole search.
    """

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        died = isinstance(exception, OutOfMemoryError)
        super()._actor_task_failed(tracked_actor_task, RayActorError(error_msg=str(exception)) if died else exception)


@contextmanager
def surviving() -> Iterator[None]:
    """Let the searches of this block survive that Ray's memory monitor ends a worker."""
    before = tune_controller.RayActorManager
    tune_controller.RayActorManager = SurvivingManager
    try:
        yield
    finally:
        tune_controller.RayActorManager = before


def _message(trial: Any) -> str:
    try:
        return Path(trial.error_file).read_text(encoding="utf-8", errors="replace")
    except (OSError, TypeError):  # a full disk: the reason is lost, the pack is not
        return ""

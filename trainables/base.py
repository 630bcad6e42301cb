"""What every trainable of tune-vfl is: a pack of trials in, one outcome per trial out, whatever happens.

A pack's configuration is plain data: ``cell`` and ``references`` as JSON, ``params`` (one mapping per trial),
``options`` of the trainable, and ``gate`` (a key and how many workers start together). The result is
``{"outcomes": [...], "done": True}``.
"""

from __future__ import annotations

import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ray import tune

from trainables.gate import wait_at_gate
from tune_vfl.outcome import Outcome
from tune_vfl.spec.cell import Cell, References

if TYPE_CHECKING:
    from types import FrameType

Settings = Sequence[Mapping[str, Any]]

_RING_AGAIN_SECONDS = 2.0


class OutOfTimeError(BaseException):
    """The time of a trial is over. Not an ``Exception``, so that what evaluates the trial does not swallow it."""


class PackTrainable(tune.Trainable):  # type: ignore[misc]
    """Evaluates packs one after another in one worker process (``reuse_actors``)."""

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first pack. Everything that can fail waits for :meth:`step`, where it becomes an outcome."""
        self._pack = config

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next pack."""
        self._pack = new_config
        return True

    def step(self) -> dict[str, Any]:
        """Evaluate the pack."""
        wait_at_gate(self._pack.get("gate"))
        outcomes = self.outcomes(self._pack)
        return {"outcomes": [o.model_dump(mode="json") for o in outcomes], "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Keep nothing: the ledger is the only record."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restore nothing."""

    @classmethod
    def outcomes(cls, pack: Mapping[str, Any]) -> list[Outcome]:
        """Evaluate a pack in this process; never raises for what a trial does."""
        params = list(pack["params"])
        try:
            cell = Cell.model_validate_json(pack["cell"])
            references = References.model_validate_json(pack["references"])
        except ValueError as error:
            return [Outcome.failed("error", f"the pack cannot be read: {error}")] * len(params)
        return cls._guarded(cell, params, references, pack.get("options") or {})

    @classmethod
    def _guarded(
        cls, cell: Cell, params: Settings, references: References, options: Mapping[str, Any]
    ) -> list[Outcome]:
        limit = cell.trial_minutes * 60 * len(params) if cell.trial_minutes else None
        try:
            # Outside the limit: a module whose import was cut short stays broken for every later trial of this worker.
            cls.prepare_worker()
            with time_limit(limit):
                outcomes = cls.evaluate(cell, params, references, options)
            if len(outcomes) != len(params):
                raise RuntimeError(f"expected {len(params)} outcomes, got {len(outcomes)}")
        except (Exception, OutOfTimeError) as error:
            if len(params) == 1:
                return [failure(error, cell.trial_minutes)]
            # One of them brought the pack down. Alone, each gets what it would have got without the others.
            return [o for p in params for o in cls._guarded(cell, [p], references, options)]
        return outcomes

    @classmethod
    @abstractmethod
    def evaluate(
        cls, cell: Cell, params: Settings, references: References, options: Mapping[str, Any]
    ) -> list[Outcome]:
        """Return one outcome per setting. May raise: the pack is then tried one by one."""

    @classmethod
    @abstractmethod
    def measure(cls, cell: Cell, options: Mapping[str, Any]) -> tuple[References, float]:
        """Measure once a study: the attacks' references, and the utility of the best constant guess."""

    @classmethod
    @abstractmethod
    def most_per_pack(cls, cell: Cell) -> int:
        """Return how many trials can be evaluated in one pass: 1 where nothing stacks."""

    @classmethod
    def prepare_worker(cls) -> None:
        """Set up a worker process: called before anything heavy."""


def failure(error: BaseException, minutes: float | None) -> Outcome:
    """Return the outcome of a trial that raised."""
    text = str(error).strip()
    if isinstance(error, (OutOfTimeError, TimeoutError)):
        return Outcome.failed("timeout", text or f"took longer than trial_minutes = {minutes}")
    # Torch's own out-of-memory error is matched by its name: this module does not need torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "not enough memory" in text:
        return Outcome.failed("oom", text or "out of memory")
    return Outcome.failed("error", f"{type(error).__name__}: {text}")


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise :class:`OutOfTimeError` inside the block after ``seconds``; works in the main thread only.

    Compiled code may turn the exception into one of its own (``SystemError``) or swallow it: the first is turned back,
    against the second the clock rings again.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    rung = False

    def ring(_number: int, _frame: FrameType | None) -> None:
        nonlocal rung
        rung = True
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _RING_AGAIN_SECONDS)
    try:
        yield
    except Exception as error:
        if rung:
            raise OutOfTimeError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def nap(seconds: float) -> None:
    """Sleep in small pieces, so that a signal is served at once."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))

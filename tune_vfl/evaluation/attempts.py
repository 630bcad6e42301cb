"""Retries: evaluate trials together, then one by one if that fails, and record each failure. Needs no torch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from tune_vfl.outcome import Outcome

T = TypeVar("T")

_RING_AGAIN_SECONDS = 2.0


class OutOfTimeError(BaseException):
    """A trial's timeout. Not an ``Exception``, so that no handler inside the trial swallows it."""


def together_or_alone(
    evaluate: Callable[[Sequence[T]], list[Outcome]], trials: Sequence[T], *, minutes: float | None = None
) -> list[Outcome]:
    """Evaluate trials together; if that fails, evaluate each by itself, so that one harms no other.

    Trials that do not fit into memory together are retried by halves.

    Args:
        evaluate: gives an outcome a trial, in order; its error becomes the outcome of the trial that caused it.
        trials: at least one.
        minutes: how long a trial may take, for its message; :func:`time_limit` holds it to that.
    """
    try:
        outcomes = evaluate(trials)
        if len(outcomes) != len(trials):
            raise RuntimeError(f"expected {len(trials)} outcomes, got {len(outcomes)}")
    except (Exception, OutOfTimeError) as error:
        if len(trials) == 1:
            return [failure(error, minutes)]
        size = -(-len(trials) // 2) if _no_memory(error) else 1
        parts = [trials[begin : begin + size] for begin in range(0, len(trials), size)]
        return [o for part in parts for o in together_or_alone(evaluate, part, minutes=minutes)]
    return outcomes


def failure(error: BaseException, minutes: float | None) -> Outcome:
    """Return the outcome of a trial that raised."""
    text = str(error).strip()
    if isinstance(error, (OutOfTimeError, TimeoutError)):
        return Outcome.failed("timeout", text or f"took longer than trial_minutes = {minutes}")
    if _no_memory(error):
        return Outcome.failed("oom", text or "out of memory")
    return Outcome.failed("error", f"{type(error).__name__}: {text}")


def _no_memory(error: BaseException) -> bool:
    # Torch's own out-of-memory error is matched by its name: a worker that trains nothing does not load torch.
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "not enough memory" in str(error)


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

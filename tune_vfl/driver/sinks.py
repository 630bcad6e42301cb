"""Sinks receive the trials and studies of a search: the live page, MLflow's recorder.

They are called in a thread of their own, and an error in one never stops a search.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from operator import methodcaller
from typing import TYPE_CHECKING, Protocol

from tune_vfl.machine.streams import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.outcome import Outcome
    from tune_vfl.records.studies import StudyRecord, TrialRecord

# The end of a search waits so long for a sink without progress, and reports the rest so often.
PATIENCE_SECONDS, SAY_EVERY_SECONDS = 120.0, 10.0
_LATER = "'tune-vfl doctor --repair' writes the rest"


class Sink(Protocol):
    """A receiver of studies. Calls come from one thread, one at a time, in the order of events."""

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Receive the trials of a study that ended since the last call."""

    def on_study(self, record: StudyRecord) -> None:
        """Receive a study's record: at the start of a run, with its baseline, and at the end."""

    def on_end(self) -> None:
        """Finish: the run is over."""

    def left(self) -> str:
        """Return a sentence on records that are not written yet, empty for none; called from another thread."""


class Dispatcher:
    """The thread that calls sinks, an observer of a search (:class:`tune_vfl.driver.study_run.SearchObserver`).

    The first error of each sink is printed, and later events still reach it.

    As a context manager it waits until everything is delivered, except after Ctrl-C.

    Args:
        sinks: the receivers.
        patience: the seconds that the end waits for sinks without progress.
    """

    def __init__(self, sinks: Sequence[Sink], patience: float = PATIENCE_SECONDS) -> None:
        self._listeners, self._patience = list(sinks), patience
        # A trial comes with the name of its study; None is the end.
        self._events: queue.SimpleQueue[tuple[str, TrialRecord] | StudyRecord | None] = queue.SimpleQueue()
        self._warned: set[int] = set()
        self._delivered = 0
        self._thread = threading.Thread(target=self._deliver, name="tune-vfl-sinks", daemon=True)
        self._thread.start()

    def __enter__(self) -> Dispatcher:
        """Begin a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it."""
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self.close()

    def on_ask(self, study: str, count: int) -> None:
        """Do nothing: no sink wants to know what was begun."""

    def on_tell(self, study: str, record: TrialRecord) -> None:
        """Pass on a finished trial of a study."""
        self._events.put((study, record))

    def on_baseline(self, records: Sequence[StudyRecord], outcome: Outcome) -> None:
        """Pass on studies, with their baseline."""
        for record in records:
            self.on_study(record)

    def on_study(self, record: StudyRecord) -> None:
        """Pass on a study's record."""
        self._events.put(record)

    def close(self) -> None:
        """Wait until everything is delivered while there is progress, and print from time to time what is left.

        Raises:
            KeyboardInterrupt: on Ctrl-C, which does not wait.
        """
        self._events.put(None)
        moved_at = said_at = time.monotonic()
        seen = self._progress()
        try:
            while self._thread.is_alive():
                self._thread.join(min(1.0, self._patience / 4))
                now, progress = time.monotonic(), self._progress()
                if progress != seen:
                    seen, moved_at = progress, now
                if now - moved_at > self._patience:
                    _say(f"{self._left()}, but nothing moves any more; {_LATER}")
                    return
                if now - said_at > SAY_EVERY_SECONDS:
                    said_at = now
                    _say(f"{self._left()}; after Ctrl-C {_LATER}")
        except KeyboardInterrupt:
            _say(f"left at once; {self._left()}; {_LATER}")
            raise

    def _progress(self) -> tuple[int, str]:
        return self._delivered, self._left()

    def _left(self) -> str:
        left = []
        for sink in self._listeners:
            with suppress(Exception):  # a sink that cannot tell is left out
                left.append(sink.left())
        return "; ".join(filter(None, left)) or "not everything is copied yet"

    def _deliver(self) -> None:
        trials: dict[str, list[TrialRecord]] = {}
        while True:
            event = self._events.get()
            if isinstance(event, tuple):
                study, trial = event
                trials.setdefault(study, []).append(trial)
                if not self._events.empty():
                    continue  # waiting trials of a study go together
            for study, waiting in trials.items():
                self._tell(methodcaller("on_trials", study, tuple(waiting)))
            trials.clear()
            if event is None:
                self._tell(methodcaller("on_end"))
                return
            if not isinstance(event, tuple):
                self._tell(methodcaller("on_study", event))

    def _tell(self, event: methodcaller) -> None:
        for sink in self._listeners:
            try:
                event(sink)
            except Exception as error:  # no error of a sink may stop a search
                if id(sink) not in self._warned:
                    self._warned.add(id(sink))
                    what = f"{type(error).__name__}: {error}"
                    _say(f"{type(sink).__name__} failed and the search goes on: {what}")
        self._delivered += 1


def _say(text: str) -> None:
    tell(f"tune-vfl: {text}")

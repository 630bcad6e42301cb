"""Listeners, such as MLflow's recorder, copy to another place what the ledger gets, of one study or of several.

They are called in a thread of their own, and what goes wrong in one never stops a search.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from contextlib import suppress
from operator import methodcaller
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.studies import StudyRecord, TrialRecord

# How long the end of a search waits for a sink that does not get on, and how often it says what it waits for.
PATIENCE_SECONDS, SAY_EVERY_SECONDS = 120.0, 10.0
_LATER = "'tune-vfl doctor --repair' writes the rest"


class Sink(Protocol):
    """Copies studies to another place. Calls come one at a time, a study's in the order of events, from one thread."""

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Trials of the study of this name were finished: all that were since the last call."""

    def on_study(self, record: StudyRecord) -> None:
        """A study as it stands: at the start of a run, when its baseline is known, and at the end."""

    def on_end(self) -> None:
        """The run is over: what was told is all that there is for now."""

    def left(self) -> str:
        """Say what is still to be copied of what was told, empty for nothing; asked from another thread."""


class Dispatcher:
    """Passes events to sinks in one thread. The first error of each is reported; it goes on being told.

    A block of it ends when everything is delivered; one that Ctrl-C leaves does not wait.

    Args:
        sinks: who is told.
        patience: seconds that the end waits for sinks that do not get on.
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

    def on_trial(self, study: str, record: TrialRecord) -> None:
        """Pass on a finished trial of the study of this name."""
        self._events.put((study, record))

    def on_study(self, record: StudyRecord) -> None:
        """Pass on a study as it stands."""
        self._events.put(record)

    def close(self) -> None:
        """Wait until everything is delivered, for as long as it gets on, and say from time to time what is left.

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
            with suppress(Exception):  # who cannot say it has nothing to say
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
                    continue  # all of a study that wait are told together
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
            except Exception as error:  # a projection must never stop a search, whatever it meets
                if id(sink) not in self._warned:
                    self._warned.add(id(sink))
                    what = f"{type(error).__name__}: {error}"
                    _say(f"{type(sink).__name__} failed and the search goes on: {what}")
        self._delivered += 1


class SinkObserver:
    """Tells sinks what a search's driver sees, as a :class:`tune_vfl.driver.study_run.Observer`.

    Args:
        ledgers: of the studies.
        dispatcher: the sinks'.
    """

    def __init__(self, ledgers: Sequence[Ledger], dispatcher: Dispatcher) -> None:
        self._ledgers, self._dispatcher = {one.study.name: one for one in ledgers}, dispatcher

    def on_ask(self, study: str, count: int) -> None:
        """Nothing to tell."""

    def on_tell(self, study: str, record: TrialRecord) -> None:
        """Pass the trial on."""
        self._dispatcher.on_trial(study, record)

    def on_baseline(self, studies: Sequence[str], outcome: Outcome) -> None:
        """Pass the studies on, now with their baseline."""
        for study in studies:
            self._dispatcher.on_study(self._ledgers[study].record())


def _say(text: str) -> None:
    sys.stderr.write(f"tune-vfl: {text}\n")
    sys.stderr.flush()

"""Listeners, such as MLflow's recorder, copy to another place what the ledger gets.

They are called in a thread of their own, and what goes wrong in one never stops a search.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.ledger.records import StudyRecord, TrialRecord

# How long the end of a search waits for listeners that lag behind.
PATIENCE_SECONDS = 120.0


class Listener(Protocol):
    """Copies a study to another place. Calls come one at a time, in the order of events, from one thread."""

    def on_trial(self, record: TrialRecord) -> None:
        """A trial was finished."""

    def on_study(self, record: StudyRecord) -> None:
        """The study as it stands: at the start of a run, when the baseline is known, and at the end."""


class Dispatcher:
    """Passes events to listeners in one thread. The first error of each is reported; it goes on being told.

    Args:
        listeners: who is told.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)
        self._events: queue.Queue[Callable[[Listener], None] | None] = queue.Queue()
        self._warned: set[int] = set()
        self._thread = threading.Thread(target=self._deliver, name="tune-vfl-listeners", daemon=True)
        self._thread.start()

    def on_trial(self, record: TrialRecord) -> None:
        """Pass on a finished trial."""
        self._events.put(lambda listener: listener.on_trial(record))

    def on_study(self, record: StudyRecord) -> None:
        """Pass on the study as it stands."""
        self._events.put(lambda listener: listener.on_study(record))

    def close(self) -> None:
        """Wait until everything has been delivered."""
        self._events.put(None)
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            sys.stderr.write("tune-vfl: a listener does not come to an end; 'tune-vfl doctor --repair' rebuilds it\n")

    def _deliver(self) -> None:
        while (event := self._events.get()) is not None:
            for listener in self._listeners:
                self._tell(listener, event)

    def _tell(self, listener: Listener, event: Callable[[Listener], None]) -> None:
        try:
            event(listener)
        except Exception as error:  # a projection must never stop a search, whatever it meets
            if id(listener) not in self._warned:
                self._warned.add(id(listener))
                what = f"{type(error).__name__}: {error}"
                sys.stderr.write(f"tune-vfl: {type(listener).__name__} failed and the search goes on: {what}\n")

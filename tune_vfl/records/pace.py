"""The pace at which the trials of a search end, from which a bar and ``status`` tell the time that is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from tune_vfl.records.studies import TrialRecord

_ENOUGH = 3
"""After so many times the first pack have ended after it, the pace is theirs."""


class Pace:
    """The pace at which a search's trials end, and the time that the others take.

    At first it is that of the workers: what a pack took there, without its wait for the worker and for what else was
    measured; but no faster than if all that run had ended by now. Those that run count whole, for they too waited. Once
    there are enough trials after the first pack, it is the pace at which those ended, and those that run are half done.
    """

    def __init__(self) -> None:
        self._ended = self._packs = self._pack = self._first = 0
        self._work = self._since = 0.0
        self._finished: datetime | None = None

    def add(self, record: TrialRecord, at: float) -> None:
        """Count a trial that has ended ``at`` this second of any clock; those of a pack end together."""
        if record.finished != self._finished:
            self._finished, self._pack = record.finished, 0
            self._packs += 1
        self._ended += 1
        self._pack += 1
        self._work += sum(record.outcome.seconds.values())
        if self._packs == 1:
            self._first, self._since = self._pack, at

    def seconds_left(self, now: float, running: int, waiting: int) -> float:
        """Estimate the seconds until all trials have ended; infinite before there is a pace.

        Args:
            now: by the clock of :meth:`add`.
            running: the number of trials that run.
            waiting: the number of those that were not started.
        """
        later, packs_at_once = self._ended - self._first, max(1, round(running / max(1, self._pack)))
        if later >= _ENOUGH * self._first and later:
            return (now - self._since) / later * (waiting + running / 2)
        worked = self._work / max(1, self._ended) / packs_at_once
        pace = max(worked, (now - self._since) / max(1, later + running)) if self._ended else 0.0
        return pace * (waiting + running) if pace else math.inf

"""The hypervolume of studies on one data set, trial by trial."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tune_vfl.metrics import pareto
from tune_vfl.records.studies import TrialRecord


class HypervolumeHistory:
    """The hypervolume after each trial of one or several studies on one data set, computed incrementally."""

    def __init__(self, reference: tuple[float, float]) -> None:
        self.reference = reference
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._front = pareto.GrowingFront(self.reference)
        self._followed: list[tuple[datetime, int]] = []
        self._areas: list[float] = []

    def follow(self, counted: Sequence[TrialRecord]) -> list[float]:
        """Return the hypervolume after each trial; values of known trials are cached.

        Args:
            counted: all trials that count, see :func:`tune_vfl.records.studies.in_order`.
        """
        # Trials of several studies have equal numbers, but did not finish at one moment.
        told = [(trial.finished, trial.number) for trial in counted]
        if told[: len(self._followed)] != self._followed:  # clocks were set: the order has changed
            self._begin_anew()
        for trial in counted[len(self._followed) :]:
            if trial.outcome.outcome == "ok":
                self._front.add(*trial.outcome.objectives)
            self._areas.append(self._front.area)
        self._followed = told
        return list(self._areas)

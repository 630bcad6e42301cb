"""Ranks, front, knee and hypervolume of a study's trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from tune_vfl.analysis.compromise import knee_of
from tune_vfl.metrics import pareto
from tune_vfl.records.studies import StudyRecord, TrialRecord


class FrontStatistics(NamedTuple):
    """The geometry of a study's ok trials.

    Attributes:
        ranks: rank by trial number; 0 is the front.
        front: the front's trial numbers, by falling utility, then by number.
        knee: the trial number of the best compromise, a confirmed one where there is one; None without ok trials.
        hypervolume: of the front.
    """

    ranks: dict[int, int]
    front: tuple[int, ...]
    knee: int | None
    hypervolume: float


def front_statistics(record: StudyRecord) -> FrontStatistics:
    """Rank a study's ok trials; the others are ignored."""
    ok = sorted(record.ok, key=lambda t: t.number)
    points = [t.outcome.objectives for t in ok]
    ranks = pareto.ranks(points).tolist()
    front = [t for t, rank in zip(ok, ranks, strict=True) if rank == 0]
    return FrontStatistics(
        ranks={t.number: rank for t, rank in zip(ok, ranks, strict=True)},
        front=tuple(t.number for t in sorted(front, key=lambda t: (-t.outcome.objectives[0], t.number))),
        knee=knee_of(record, front),
        hypervolume=pareto.hypervolume(points, record.reference_point),
    )


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
            counted: all trials that count, see :func:`in_order`.
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


def in_order(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that count, in the order in which they finished."""
    counted = (t for t in trials if t.outcome.outcome != "preempted")
    return sorted(counted, key=lambda t: (t.finished, t.number))

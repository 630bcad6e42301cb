"""Records of studies and their finished trials."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tune_vfl.records.plans import PlannedStudy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from tune_vfl.outcome import Outcome
    from tune_vfl.records.answers import Confirmation
    from tune_vfl.records.confirmations import ConfirmedPoint


END_OF_TIME = 2**37
"""Seconds since 1970 up to which every calendar has days: the year 6325."""


@dataclass(frozen=True)
class TrialRecord:
    """One finished trial.

    Attributes:
        number: its number in the study.
        params: the defense's parameters, fixed ones included, and the searched values of training and model, by names
            such as ``training.lr``.
        outcome: its result.
        started, finished: UTC.
        retry_of: the preempted trial that this one repeats.
    """

    number: int
    params: dict[str, Any]
    outcome: Outcome
    started: datetime
    finished: datetime
    retry_of: int | None = None


@dataclass(frozen=True, kw_only=True)
class StudyRecord(PlannedStudy):
    """The record of a study at one moment: its plan, and what was measured by then.

    Attributes:
        baseline: the undefended model's outcome with the same seeds; None before it was measured.
        reference_point: ``(utility, leakage)`` for the hypervolume, fixed at the study's start.
        trials: finished trials by number, preempted ones included.
        running, waiting: the numbers of trials that run, and that are still to be started.
        alone: the utility of the label party's own model, a value a seed of the undefended one; empty where it was not
            measured.
        confirmation: the answer of its last confirmation; None without one.
        cost: the ratio of the training's CPU time to the undefended one's; None where it was not measured.
        ended: why no more is asked although the budget is not used up, in words; empty where that is not so.
    """

    baseline: Outcome | None
    reference_point: tuple[float, float]
    trials: tuple[TrialRecord, ...]
    running: int = 0
    waiting: int = 0
    alone: tuple[float, ...] = ()
    confirmation: Confirmation | None = None
    cost: float | None = None
    ended: str = ""

    @property
    def counted(self) -> tuple[TrialRecord, ...]:
        """The finished trials that count: all but the preempted ones."""
        return tuple(t for t in self.trials if t.outcome.outcome != "preempted")

    @property
    def ok(self) -> tuple[TrialRecord, ...]:
        """The trials with objectives."""
        return tuple(t for t in self.trials if t.outcome.outcome == "ok")

    def stood_still(self, most: int | None) -> bool:
        """Return whether ``most`` trials in a row, as they finished, have not grown the front; never for None.

        A trial grows it unless one before was as good in both numbers. One without numbers does not.
        """
        from tune_vfl.metrics.pareto import GrowingFront

        front, since, longest = GrowingFront(self.reference_point), 0, 0
        for trial in in_order(self.trials if most else ()):
            grown = trial.outcome.outcome == "ok" and front.add(*trial.outcome.objectives)
            since = 0 if grown else since + 1
            longest = max(longest, since)
        return most is not None and longest >= most

    def owing(self, waiting: int) -> StudyRecord:
        """Return the study with so many trials still to be started, or as ended where its ``stop`` lets none start."""
        most = self.spec.stop.front
        if waiting <= 0 or most is None or not self.stood_still(most):
            return replace(self, waiting=max(0, waiting), ended="")
        return replace(self, waiting=0, ended=f"the front has not grown for {most} trial{'s' * (most > 1)}")

    @property
    def confirmed(self) -> dict[int, ConfirmedPoint]:
        """The trials on the confirmed front, with their numbers on fresh seeds."""
        return {number: p for (_, number), p in self.confirmation.by_setting.items()} if self.confirmation else {}

    def with_trials(self, trials: Iterable[TrialRecord]) -> StudyRecord:
        """Return the study with further finished trials; running ones count as waiting."""
        known = {trial.number: trial for trial in (*self.trials, *trials)}
        total = len(self.counted) + self.running + self.waiting
        grown = replace(self, trials=tuple(known[number] for number in sorted(known)), running=0)
        return grown.owing(total - len(grown.counted))

    def by_outcome(self) -> dict[str, int]:
        """Count trials by outcome, ``running`` and ``waiting``; outcomes that did not occur are left out."""
        counts: dict[str, int] = dict(Counter(str(t.outcome.outcome) for t in self.trials))
        return {**counts, "running": self.running, "waiting": self.waiting}


def in_order(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that count, in the order in which they finished."""
    counted = (t for t in trials if t.outcome.outcome != "preempted")
    return sorted(counted, key=lambda t: (t.finished, t.number))

"""The Pareto front of one study as data for texts: points, front, knee and baselines."""

from __future__ import annotations

from typing import Any, NamedTuple

from reports.naming import moving_params
from tune_vfl.analysis import formatting
from tune_vfl.analysis.front_statistics import front_statistics
from tune_vfl.analysis.reliability import Reliability, reliability_of
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord


class Point(NamedTuple):
    """One trial with objectives.

    Attributes:
        number: its number; ``params``: its parameters.
        utility, leakage: means over the seeds.
        on_front, is_knee: whether it is on the front, and whether it is the front's knee.
        weak: the attacks with less success than on an untrained model, which are no evidence for the defense.
    """

    number: int
    params: dict[str, Any]
    utility: float
    leakage: float
    on_front: bool
    is_knee: bool
    weak: tuple[str, ...]


class Undefended(NamedTuple):
    """The undefended model under the same attacks: means over the seeds."""

    utility: float
    leakage: float


class FrontierInfo(NamedTuple):
    """One study's front.

    Attributes:
        metric: the utility's name in words.
        points: ok trials by number.
        front: the front's points by rising leakage, then by number.
        knee: the front's best compromise; None without ok trials.
        undefended: the undefended model; None before it was measured.
        guess_utility: the utility of a guess by the class shares alone.
        moved: the searched parameters.
        trust: intervals, checks, and the label party's own model.
    """

    metric: str
    points: tuple[Point, ...]
    front: tuple[Point, ...]
    knee: Point | None
    undefended: Undefended | None
    guess_utility: float
    moved: tuple[str, ...]
    trust: Reliability


def frontier_info(record: StudyRecord) -> FrontierInfo:
    """Compute a study's frontier, which is empty or partial for an unfinished study."""
    now, baseline = front_statistics(record), record.baseline
    points = tuple(
        Point(
            t.number,
            t.params,
            *t.outcome.objectives,
            on_front=now.ranks[t.number] == 0,
            is_knee=t.number == now.knee,
            weak=weak_attacks(t.outcome),
        )
        for t in sorted(record.ok, key=lambda t: t.number)
    )
    return FrontierInfo(
        metric=formatting.metric(record.cell.metric),
        points=points,
        front=tuple(sorted((p for p in points if p.on_front), key=lambda p: (p.leakage, p.number))),
        knee=next((p for p in points if p.is_knee), None),
        undefended=Undefended(*baseline.objectives) if baseline is not None and baseline.outcome == "ok" else None,
        guess_utility=record.reference_point[0],
        moved=tuple(moving_params(record)),
        trust=reliability_of(record),
    )


def weak_attacks(outcome: Outcome) -> tuple[str, ...]:
    """Return the attacks that found less than on a model that was never trained."""
    return tuple(name for name, score in outcome.attacks.items() if score.weak_attack)

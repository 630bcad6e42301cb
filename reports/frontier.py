"""The Pareto front of one study as data for figures and texts: points, front, knee and baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reports.naming import moving_params
from tune_vfl.analysis import formatting
from tune_vfl.analysis.front_statistics import front_statistics
from tune_vfl.analysis.reliability import NONE, Reliability, reliability_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.evaluation.certainty import Certainty
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.studies import StudyRecord, TrialRecord


class Point(NamedTuple):
    """One trial with objectives.

    Attributes:
        number: its number; ``params``: its parameters.
        label: the searched parameters in short; of a single one the value without its name.
        utility, leakage: means over the seeds; ``*_std``: their standard deviations; ``*_span``: the ends of their
            bars, 90% intervals where there are any, else one standard deviation to either side.
        on_front, is_knee: whether it is on the front, and whether it is the front's knee.
        worst: the attack of the largest advantage; empty without attacks.
        weak: the attacks with less success than on an untrained model, which are no evidence for the defense.
    """

    number: int
    params: dict[str, Any]
    label: str
    utility: float
    leakage: float
    utility_std: float
    leakage_std: float
    utility_span: tuple[float, float]
    leakage_span: tuple[float, float]
    on_front: bool
    is_knee: bool
    worst: str
    weak: tuple[str, ...]


class Undefended(NamedTuple):
    """The undefended model under the same attacks, with the fields of :class:`Point`."""

    utility: float
    leakage: float
    utility_std: float
    leakage_std: float
    utility_span: tuple[float, float]
    leakage_span: tuple[float, float]


class FrontierInfo(NamedTuple):
    """The content of one study's figure.

    Attributes:
        study: its name; ``title``: defense and data set in short; ``metric``: the utility's name in words.
        points: ok trials by number.
        front: the front's points by rising leakage, then by number.
        knee: the front's best compromise; None without ok trials.
        undefended: the undefended model; None before it was measured.
        guess_utility: the utility of a guess by the class shares alone.
        hypervolume: the area that the front dominates, bounded by (guess_utility, leakage 1).
        seeds: the number of seeds behind a point's means.
        moved: the searched parameters.
        trust: intervals, checks, and the label party's own model.
    """

    study: str
    title: str
    metric: str
    points: tuple[Point, ...]
    front: tuple[Point, ...]
    knee: Point | None
    undefended: Undefended | None
    guess_utility: float
    hypervolume: float
    seeds: int
    moved: tuple[str, ...]
    trust: Reliability = NONE

    @property
    def bars(self) -> str:
        """The meaning of the error bars of its points."""
        return "90% intervals" if self.trust.trials else f"std of {formatting.count(self.seeds, 'seed')}"


def frontier_info(record: StudyRecord) -> FrontierInfo:
    """Compute a study's frontier, which is empty or partial for an unfinished study."""
    now, trust = front_statistics(record), reliability_of(record)
    moved = moving_params(record)
    points = tuple(
        _point(t, moved, trust, on_front=now.ranks[t.number] == 0, is_knee=t.number == now.knee)
        for t in sorted(record.ok, key=lambda t: t.number)
    )
    return FrontierInfo(
        study=record.name,
        title=f"{record.cell.defense} on {record.cell.dataset.name}",
        metric=formatting.metric(record.cell.metric),
        points=points,
        front=tuple(sorted((p for p in points if p.on_front), key=lambda p: (p.leakage, p.number))),
        knee=next((p for p in points if p.is_knee), None),
        undefended=_undefended(record.baseline, trust),
        guess_utility=record.reference_point[0],
        hypervolume=now.hypervolume,
        seeds=len(record.cell.seeds),
        moved=tuple(moved),
        trust=trust,
    )


def _point(trial: TrialRecord, moved: Sequence[str], trust: Reliability, *, on_front: bool, is_knee: bool) -> Point:
    outcome = trial.outcome
    utility, leakage = outcome.objectives
    return Point(
        number=trial.number,
        params=trial.params,
        label=formatting.number(trial.params[moved[0]])
        if _is_one(trial, moved)
        else formatting.setting(trial.params, moved),
        utility=utility,
        leakage=leakage,
        utility_std=outcome.utility.std if outcome.utility else 0.0,
        leakage_std=outcome.leakage_std or 0.0,
        **_spans(outcome, trust.trials.get(trial.number)),
        on_front=on_front,
        is_knee=is_knee,
        worst=max(outcome.attacks, key=lambda name: outcome.attacks[name].advantage, default=""),
        weak=tuple(name for name, score in outcome.attacks.items() if score.weak_attack),
    )


def _is_one(trial: TrialRecord, moved: Sequence[str]) -> bool:
    return len(moved) == 1 and moved[0] in trial.params


def _spans(outcome: Outcome, sure: Certainty | None) -> dict[str, tuple[float, float]]:
    utility, leakage = outcome.objectives
    spread = outcome.utility.std if outcome.utility else 0.0, outcome.leakage_std or 0.0
    known = (sure.utility_interval, sure.leakage_interval) if sure else (None, None)
    return {
        "utility_span": known[0] or (utility - spread[0], utility + spread[0]),
        "leakage_span": known[1] or (leakage - spread[1], leakage + spread[1]),
    }


def _undefended(baseline: Outcome | None, trust: Reliability) -> Undefended | None:
    if baseline is None or baseline.outcome != "ok":
        return None
    utility, leakage = baseline.objectives
    spread = baseline.utility.std if baseline.utility else 0.0
    return Undefended(utility, leakage, spread, baseline.leakage_std or 0.0, **_spans(baseline, trust.baseline))

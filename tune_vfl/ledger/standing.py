"""Where a study's trials stand: who is on the front, at which rank, which one is the knee."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.metrics import pareto

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tune_vfl.ledger.records import TrialRecord


class Standing(NamedTuple):
    """The geometry of a study's ok trials.

    Attributes:
        ranks: rank by trial number; 0 is the front.
        front: the front's trial numbers, by falling utility, then by number.
        knee: the trial number of the front's best compromise; None without ok trials.
        hypervolume: of the front.
    """

    ranks: dict[int, int]
    front: tuple[int, ...]
    knee: int | None
    hypervolume: float


def standing(trials: Iterable[TrialRecord], reference: tuple[float, float]) -> Standing:
    """Rank the trials whose outcome is ok; the others are passed over.

    Args:
        trials: finished trials, in any order.
        reference: ``(utility, leakage)`` for the hypervolume.
    """
    ok = sorted((t for t in trials if t.outcome.outcome == "ok"), key=lambda t: t.number)
    points = [t.outcome.objectives for t in ok]
    ranks = pareto.ranks(points).tolist()
    knee = pareto.knee(points)
    chosen = [(t.number, p) for t, p, rank in zip(ok, points, ranks, strict=True) if rank == 0]
    return Standing(
        ranks={t.number: rank for t, rank in zip(ok, ranks, strict=True)},
        front=tuple(number for number, _ in sorted(chosen, key=lambda c: (-c[1][0], c[0]))),
        knee=None if knee is None else ok[knee].number,
        hypervolume=pareto.hypervolume(points, reference),
    )


def growth(trials: Iterable[TrialRecord], reference: tuple[float, float]) -> list[float]:
    """Return the hypervolume after each trial that counts, in the order in which they finished."""
    counted = [t for t in trials if t.outcome.outcome != "preempted"]
    counted.sort(key=lambda t: (t.finished, t.number))
    ok = [t.outcome.objectives for t in counted if t.outcome.outcome == "ok"]
    areas = iter(pareto.hypervolume_history(ok, reference).tolist())
    grown, area = [], 0.0
    for trial in counted:
        area = next(areas) if trial.outcome.outcome == "ok" else area
        grown.append(area)
    return grown

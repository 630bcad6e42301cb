"""Choose one point of a front: by name, or by a condition such as ``leakage<=0.2``."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.metrics.pareto import knee

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.ledger.records import TrialRecord

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"^\s*(utility|leakage)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*$")
_EXPECTED = "expected knee, max-utility, min-leakage, or a condition such as 'leakage<=0.2' or 'utility>=0.9'"


def select(front: Sequence[TrialRecord], by: str) -> TrialRecord:
    """Return one point.

    Args:
        front: the trials on the front, by number.
        by: ``knee``, ``max-utility``, ``min-leakage``, or a condition on ``utility`` or ``leakage``, several joined by
            ``and``. Among the points that meet a condition on leakage alone the one of largest utility is taken, and
            of a condition on utility alone the one of least leakage; with both, the one of largest utility. Ties go
            to the other objective, then to the lowest number.

    Raises:
        UsageError: for another ``by``.
        SelectionError: for an empty front, or a condition that no point meets; the message says how far the front goes.
    """
    if not front:
        raise SelectionError("the study has no point to select from: none of its trials ended ok")
    if by == "knee":
        position = knee([t.outcome.objectives for t in front])
        return front[position or 0]
    if by in ("max-utility", "min-leakage"):
        return _best(front, "utility" if by == "max-utility" else "leakage")
    conditions = [_parse(part, by) for part in re.split(r"\s+and\s+", by.strip())]
    meeting = [t for t in front if all(_meets(t, c) for c in conditions)]
    if not meeting:
        ends = _best(front, "leakage").outcome.objectives, _best(front, "utility").outcome.objectives
        raise SelectionError(
            f"no point of the front meets {by!r}; it goes from utility {ends[0][0]:.4f}, leakage {ends[0][1]:.4f} "
            f"to utility {ends[1][0]:.4f}, leakage {ends[1][1]:.4f}"
        )
    return _best(meeting, "leakage" if all(c[0] == "utility" for c in conditions) else "utility")


def _best(trials: Sequence[TrialRecord], objective: str) -> TrialRecord:
    def order(trial: TrialRecord) -> tuple[float, float, int]:
        utility, leakage = trial.outcome.objectives
        return (-utility, leakage, trial.number) if objective == "utility" else (leakage, -utility, trial.number)

    return min(trials, key=order)


def _parse(part: str, whole: str) -> tuple[str, str, float]:
    match = _CONDITION.match(part)
    try:
        if match is None:
            raise ValueError
        return match[1], match[2], float(match[3])
    except ValueError:
        raise UsageError(f"--select {whole!r}: {_EXPECTED}") from None


def _meets(trial: TrialRecord, condition: tuple[str, str, float]) -> bool:
    utility, leakage = trial.outcome.objectives
    name, compare, bound = condition
    return _COMPARE[compare](utility if name == "utility" else leakage, bound)

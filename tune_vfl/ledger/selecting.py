"""Choose one point of a front: by name, or by a condition such as ``leakage<=0.2``."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.metrics.pareto import knee

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tune_vfl.ledger.confirmations import ConfirmedPoint
    from tune_vfl.ledger.records import TrialRecord

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"^\s*(utility|leakage)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*$")
_EXPECTED = "expected knee, max-utility, min-leakage, or a condition such as 'leakage<=0.2' or 'utility>=0.9'"


class _Choice(NamedTuple):
    """A point that can be chosen; ``bound`` is what a condition on leakage must hold for."""

    trial: TrialRecord
    utility: float
    leakage: float
    bound: float


def select(front: Sequence[TrialRecord], by: str, confirmed: Mapping[int, ConfirmedPoint] | None = None) -> TrialRecord:
    """Return one point.

    Args:
        front: the trials to choose from, those on the front, by number.
        by: ``knee``, ``max-utility``, ``min-leakage``, or a condition on ``utility`` or ``leakage``, several joined by
            ``and``. Among the points that meet a condition on leakage alone the one of largest utility is taken, and
            of a condition on utility alone the one of least leakage; with both, the one of largest utility. Ties go
            to the other objective, then to the lowest number.
        confirmed: what a confirmation found of these trials. Its numbers are then what is compared, and a condition
            such as ``leakage<=0.2`` must hold for the leakage's upper bound, with 90% confidence.

    Raises:
        UsageError: for another ``by``.
        SelectionError: for an empty front, or a condition that no point meets; the message says how far the front goes.
    """
    choices = [_choice(t, (confirmed or {}).get(t.number)) for t in front]
    if not choices:
        raise SelectionError("the study has no point to select from: none of its trials ended ok")
    if by == "knee":
        position = knee([(c.utility, c.leakage) for c in choices])
        return front[position or 0]
    if by in ("max-utility", "min-leakage"):
        return _best(choices, "utility" if by == "max-utility" else "leakage").trial
    conditions = [_parse(part, by) for part in re.split(r"\s+and\s+", by.strip())]
    meeting = [c for c in choices if all(_meets(c, condition) for condition in conditions)]
    if not meeting:
        low, high = _best(choices, "leakage"), _best(choices, "utility")
        surely = "; leakage must be below with 90% confidence" if confirmed else ""
        raise SelectionError(
            f"no point of the front meets {by!r}; it goes from utility {low.utility:.4f}, leakage {low.leakage:.4f} "
            f"to utility {high.utility:.4f}, leakage {high.leakage:.4f}{surely}"
        )
    return _best(meeting, "leakage" if all(c[0] == "utility" for c in conditions) else "utility").trial


def _choice(trial: TrialRecord, again: ConfirmedPoint | None) -> _Choice:
    utility, leakage = trial.outcome.objectives
    if again is None or again.utility is None or again.leakage is None:
        return _Choice(trial, utility, leakage, leakage)
    bound = again.leakage if again.leakage_upper_90 is None else again.leakage_upper_90
    return _Choice(trial, again.utility, again.leakage, bound)


def _best(choices: Sequence[_Choice], objective: str) -> _Choice:
    def order(choice: _Choice) -> tuple[float, float, int]:
        utility, leakage, number = choice.utility, choice.leakage, choice.trial.number
        return (-utility, leakage, number) if objective == "utility" else (leakage, -utility, number)

    return min(choices, key=order)


def _parse(part: str, whole: str) -> tuple[str, str, float]:
    match = _CONDITION.match(part)
    try:
        if match is None:
            raise ValueError
        return match[1], match[2], float(match[3])
    except ValueError:
        raise UsageError(f"--select {whole!r}: {_EXPECTED}") from None


def _meets(choice: _Choice, condition: tuple[str, str, float]) -> bool:
    name, compare, bound = condition
    at_most = compare.startswith("<")
    value = choice.utility if name == "utility" else choice.bound if at_most else choice.leakage
    return _COMPARE[compare](value, bound)

"""Choose one point of a front: by name, or by a condition such as ``leakage<=0.2``."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.ledger.compromise import knee_of
from tune_vfl.ledger.trust import trust_of
from tune_vfl.metrics import pareto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.ledger.records import StudyRecord, TrialRecord
    from tune_vfl.ledger.trust import Trust

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


def front_of(record: StudyRecord, leakages: Sequence[float] | None = None) -> list[TrialRecord]:
    """Return the trials on a study's front, by number; equal points all stay.

    Args:
        record: the study.
        leakages: one for each ok trial, in the place of its own.
    """
    own = [t.outcome.objectives for t in record.ok]
    points = own if leakages is None else [(u, x) for (u, _), x in zip(own, leakages, strict=True)]
    return [t for t, on in zip(record.ok, pareto.front(points).tolist(), strict=True) if on]


def select(record: StudyRecord, by: str) -> TrialRecord:
    """Return one trial: of those that a confirmation left on the front where there was one, else of the front.

    What is compared is what the confirmation measured of a trial, else what the search did.

    Args:
        record: the study.
        by: ``knee``, ``max-utility``, ``min-leakage``, or a condition on ``utility`` or ``leakage``, several joined by
            ``and``. A condition such as ``leakage<=0.2`` must hold with 90% confidence, for the leakage's upper bound;
            from a single seed there is none, and it must hold for the leakage itself. Among the points that meet a
            condition on leakage alone the one of largest utility is taken, and of a condition on utility alone the
            one of least leakage; with both, the one of largest utility. Ties go to the other objective, then to the
            lowest number.

    Raises:
        UsageError: for another ``by``.
        SelectionError: for an empty front, or a condition that no point meets; the message says how far the front goes.
    """
    front, trust = front_of(record), trust_of(record)
    stayed = [t for t in record.ok if t.number in record.confirmed]
    choices = [_choice(t, record, trust) for t in stayed or front]
    if not choices:
        raise SelectionError("the study has no point to select from: none of its trials ended ok")
    if by == "knee":
        number = knee_of(record, front)
        return next(t for t in record.ok if t.number == number)
    if by in ("max-utility", "min-leakage"):
        return _best(choices, "utility" if by == "max-utility" else "leakage").trial
    conditions = [_parse(part, by) for part in re.split(r"\s+and\s+", by.strip())]
    meeting = [c for c in choices if all(_meets(c, condition) for condition in conditions)]
    if not meeting:
        raise SelectionError(_too_far(choices, by))
    return _best(meeting, "leakage" if all(c[0] == "utility" for c in conditions) else "utility").trial


def _choice(trial: TrialRecord, record: StudyRecord, trust: Trust) -> _Choice:
    utility, leakage = trial.outcome.objectives
    again, sure = record.confirmed.get(trial.number), trust.trials.get(trial.number)
    bound = sure.leakage_upper_90 if sure is not None else None
    if again is not None and again.utility is not None and again.leakage is not None:
        utility, leakage, bound = again.utility, again.leakage, again.leakage_upper_90
    return _Choice(trial, utility, leakage, leakage if bound is None else bound)


def _too_far(choices: Sequence[_Choice], by: str) -> str:
    low, high = _best(choices, "leakage"), _best(choices, "utility")
    surest = min(c.bound for c in choices)
    shaky = any(c.bound > c.leakage for c in choices)
    surely = f"; leakage must be below with 90% confidence, which holds from {surest:.4f} up" if shaky else ""
    return (
        f"no point of the front meets {by!r}; it goes from utility {low.utility:.4f}, leakage {low.leakage:.4f} "
        f"to utility {high.utility:.4f}, leakage {high.leakage:.4f}{surely}"
    )


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

"""Rows of trials, and their retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Double, Text, TypeDecorator, select, type_coerce

from tune_vfl.ledger.schema import trials
from tune_vfl.machine import checked_json
from tune_vfl.machine.checked_json import DamagedValueError
from tune_vfl.outcome import Outcome
from tune_vfl.records.rows import TrialRow
from tune_vfl.records.studies import END_OF_TIME

MOMENTS = ("asked", "finished")
"""The columns of times."""


def is_moment(seconds: float | None) -> bool:
    """Return whether a time is missing, or one that every calendar has."""
    return seconds is None or 0 <= seconds < END_OF_TIME


class _Moment(TypeDecorator[float]):
    """Seconds since 1970; reading what is no moment raises DamagedValueError."""

    impl, cache_ok = Double, True

    def process_result_value(self, value: float | None, _dialect: Dialect) -> float | None:
        """Verify a value."""
        if not is_moment(value):
            raise DamagedValueError(f"no calendar has {value} seconds since 1970")
        return value


class _Result(TypeDecorator[Outcome]):
    """An outcome from its text at once: a thousand of them are most of what a ledger holds."""

    impl, cache_ok = Text, True

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Outcome | None:
        """Compare a value with its checksum, and parse it."""
        return None if value is None else Outcome.model_validate_json(checked_json.verified(value))


_READ: dict[str, TypeDecorator[Any]] = {"result": _Result(), **dict.fromkeys(MOMENTS, _Moment())}
# Tuned attackers are read by confirmations alone.
_COLUMNS = [
    type_coerce(trials.c[name], _READ[name]).label(name) if name in _READ else trials.c[name]
    for name in TrialRow.model_fields
    if name != "tuned"
]


def trials_of(study: str, connection: Connection, *conditions: ColumnElement[bool]) -> list[TrialRow]:
    """Query trials of a study by conditions, by number; their tuned attackers are left out."""
    wanted = select(*_COLUMNS).where(trials.c.study == study, *conditions).order_by(trials.c.number)
    return [TrialRow.model_construct(**row) for row in connection.execute(wanted).mappings()]


def ending_of(outcome: Outcome | None) -> dict[str, Any]:
    """Return the columns of a trial that conditions read, from its whole outcome."""
    utility, leakage = outcome.objectives if outcome is not None and outcome.outcome == "ok" else (None, None)
    return {"outcome": None if outcome is None else outcome.outcome, "utility": utility, "leakage": leakage}


def overdue(running: Sequence[TrialRow], minutes: float | None, now: datetime | None = None) -> list[int]:
    """Return the running trials that exceed their pack's time limit, by number.

    Args:
        running: all running trials of a study.
        minutes: the limit of one trial; None is no limit.
        now: with a time zone; the present by default.
    """
    if minutes is None:
        return []
    packs = Counter(t.pack for t in running)
    moment = (now or datetime.now(UTC)).timestamp()
    return [t.number for t in running if moment - t.asked > 60 * minutes * packs[t.pack]]


def repeats(retry_of: Mapping[int, int | None], number: int) -> list[int]:
    """Return the trials that a trial repeats, the latest first."""
    chain = []
    before = retry_of[number]
    while before is not None:
        chain.append(before)
        before = retry_of[before]
    return chain


def not_repeated(held: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the lost trials without a retry, in the given order."""
    held = list(held)
    repeated = {t.retry_of for t in held}
    return [t for t in held if t.outcome == "preempted" and t.number not in repeated]

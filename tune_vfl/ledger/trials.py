"""Rows of trials, and their retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Double, TypeDecorator, select, type_coerce

from tune_vfl.ledger.schema import JsonText, trials
from tune_vfl.machine.checked_json import DamagedValueError
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import END_OF_TIME, TrialRecord
from tune_vfl.spec.cell import from_text


@dataclass(frozen=True)
class Trial:
    """A trial, running or finished.

    Attributes:
        number: its number in the study.
        params: the searched parameters, lists as texts.
        asked: when it was created, in seconds since 1970.
        pack: the pack that it runs in.
        session: the run of a search that created it.
        retry_of: the lost trial that it repeats.
        sampler: the sampler's own data about it.
        outcome: its kind; None while it runs.
        utility, leakage: of an outcome that is ok.
        result: the whole outcome, as JSON.
        lost: the cause of a preemption.
        finished: when it ended, in seconds since 1970.
    """

    number: int
    params: dict[str, Any]
    asked: float
    pack: str = ""
    session: str = ""
    retry_of: int | None = None
    sampler: dict[str, Any] = field(default_factory=dict)
    outcome: str | None = None
    utility: float | None = None
    leakage: float | None = None
    result: str | None = None
    lost: str | None = None
    finished: float | None = None

    @property
    def objectives(self) -> tuple[float, float] | None:
        """``(utility, leakage)``; None of an outcome that is not ok."""
        return None if self.utility is None or self.leakage is None else (self.utility, self.leakage)

    def ended(self) -> Outcome:
        """Return the outcome of a finished trial."""
        return Outcome.model_validate_json(self.result or "")

    def record(
        self, fixed: Mapping[str, Any], outcome: Outcome | None = None, finished: float | None = None
    ) -> TrialRecord:
        """Return the record of a finished trial.

        Args:
            fixed: the parameters that the search does not touch.
            outcome: of a trial that was read while it ran.
            finished: likewise.
        """
        return TrialRecord(
            number=self.number,
            params={**fixed, **{name: from_text(value) for name, value in self.params.items()}},
            outcome=outcome or self.ended(),
            started=datetime.fromtimestamp(self.asked, UTC),
            finished=datetime.fromtimestamp(finished or self.finished or 0.0, UTC),
            retry_of=self.retry_of,
        )


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


# Outcomes are read from their text at once: a thousand of them are most of what a ledger holds.
_READ: dict[str, TypeDecorator[Any]] = {"result": JsonText(), **dict.fromkeys(MOMENTS, _Moment())}
_COLUMNS = [
    type_coerce(column, _READ[column.name]).label(column.name) if column.name in _READ else column
    for column in trials.c
    if column not in {trials.c.study, trials.c.tuned}
]


def trials_of(study: str, connection: Connection, *conditions: ColumnElement[bool]) -> list[Trial]:
    """Query trials of a study by conditions, by number."""
    wanted = select(*_COLUMNS).where(trials.c.study == study, *conditions).order_by(trials.c.number)
    return [Trial(**row) for row in connection.execute(wanted).mappings()]


def ending_of(outcome: Outcome | None) -> dict[str, Any]:
    """Return the columns of a trial that conditions read, from its whole outcome."""
    utility, leakage = outcome.objectives if outcome is not None and outcome.outcome == "ok" else (None, None)
    return {"outcome": None if outcome is None else outcome.outcome, "utility": utility, "leakage": leakage}


def overdue(running: Sequence[Trial], minutes: float | None, now: datetime | None = None) -> list[int]:
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


def not_repeated(held: Iterable[Trial]) -> list[Trial]:
    """Return the lost trials without a retry, in the given order."""
    held = list(held)
    repeated = {t.retry_of for t in held}
    return [t for t in held if t.outcome == "preempted" and t.number not in repeated]

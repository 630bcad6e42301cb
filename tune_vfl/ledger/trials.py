"""A trial as the ledger writes it: what is said of it when it is asked, and how it is read back."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from tune_vfl.errors import StudyError
from tune_vfl.ledger.records import TrialRecord
from tune_vfl.outcome import Outcome
from tune_vfl.spec.cell import from_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from enum import Enum

    from optuna.trial import FrozenTrial


class LedgerTrial(Protocol):
    """A trial that was read from a ledger; Optuna's own is one.

    Attributes:
        number: of the trial, in its study.
        user_attrs: what tune-vfl wrote; ``outcome`` may still be JSON.
        system_attrs: what Optuna wrote, with ``fixed_params`` of one that was only enqueued.
        params: searched, lists as texts.
        datetime_start, datetime_complete: local, without a zone.
    """

    number: int
    user_attrs: dict[str, Any]
    system_attrs: dict[str, Any]
    params: dict[str, Any]
    datetime_start: datetime | None
    datetime_complete: datetime | None

    @property
    def state(self) -> Enum:
        """How far it is, with a name of Optuna's ``TrialState``."""


def is_running(trial: LedgerTrial) -> bool:
    """Whether somebody works on it, or did when the search was stopped."""
    return trial.state.name == "RUNNING"


def is_finished(trial: LedgerTrial) -> bool:
    """Whether it has ended, well or not."""
    return trial.state.name not in ("RUNNING", "WAITING")


def params_of(trial: LedgerTrial) -> dict[str, Any]:
    """Return a trial's searched parameters, lists as texts, also of one that was only enqueued."""
    return {**trial.system_attrs.get("fixed_params", {}), **trial.params}


def overdue(trials: Iterable[LedgerTrial], minutes: float | None, now: datetime | None = None) -> list[int]:
    """Return the running trials that were asked longer ago than their pack may take, by number.

    Args:
        trials: all of a study.
        minutes: how long a trial may take; None is no limit.
        now: with a time zone; the present by default.
    """
    if minutes is None:
        return []
    running = [t for t in trials if is_running(t)]
    packs = Counter(t.user_attrs.get("pack") for t in running)
    moment = now or datetime.now(UTC)
    waited = {t.number: (moment - _asked(t)).total_seconds() / 60 for t in running}
    return [t.number for t in running if waited[t.number] > minutes * packs[t.user_attrs.get("pack")]]


def session_of(trial: FrozenTrial) -> str | None:
    """Return the session that asked a trial; None of one that somebody else has made."""
    return (trial.user_attrs.get("owner") or {}).get("session")


def repeats(trials: Sequence[FrozenTrial], number: int) -> list[FrozenTrial]:
    """Return the lost trials that trial ``number`` repeats, the latest first."""
    by_number = {t.number: t for t in trials}
    chain = []
    before = by_number[number].user_attrs.get("retry_of")
    while before is not None:
        chain.append(by_number[before])
        before = by_number[before].user_attrs.get("retry_of")
    return chain


def not_repeated(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the lost trials that have not been asked again, by number."""
    repeated = {t.user_attrs.get("retry_of") for t in trials}
    lost = [t for t in trials if (t.user_attrs.get("outcome") or {}).get("outcome") == "preempted"]
    return [t for t in lost if t.number not in repeated]


def to_record(trial: LedgerTrial, fixed: Mapping[str, Any]) -> TrialRecord:
    """Return a finished trial's record.

    Args:
        trial: finished.
        fixed: the parameters that the search does not touch.

    Raises:
        StudyError: when somebody else finished it.
    """
    raw = trial.user_attrs.get("outcome")
    if raw is None and trial.state.name == "COMPLETE":
        raise StudyError(f"trial {trial.number} was not written by tune-vfl: it has values but no outcome")
    outcome = _outcome(raw) if raw else Outcome.failed("error", "ended without an outcome")
    return TrialRecord(
        number=trial.number,
        params={**fixed, **{name: from_text(value) for name, value in params_of(trial).items()}},
        outcome=outcome,
        started=_utc(trial.datetime_start),
        finished=_utc(trial.datetime_complete),
        retry_of=trial.user_attrs.get("retry_of"),
    )


def _asked(trial: LedgerTrial) -> datetime:
    # Optuna's own time is in the zone of the machine that asked, which need not be that of the one that looks.
    asked = trial.user_attrs.get("asked")
    return _utc(trial.datetime_start) if asked is None else datetime.fromtimestamp(asked, UTC)


def _outcome(raw: Mapping[str, Any] | str) -> Outcome:
    return Outcome.model_validate_json(raw) if isinstance(raw, str) else Outcome.model_validate(raw)


def _utc(moment: datetime | None) -> datetime:
    # Optuna writes local time without a zone.
    return moment.astimezone(UTC) if moment else datetime.fromtimestamp(0, UTC)

"""The trials of a study without Optuna: its tables are read as they are, many times as fast as through its objects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger.trials import is_finished
from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.reader import Reader

_TRIALS = """
SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials
WHERE study_id = :study AND trial_id BETWEEN :first AND :last ORDER BY trial_id
"""
_PARAMS = """
SELECT p.trial_id, p.param_name, p.param_value, p.distribution_json
FROM trial_params p JOIN trials t ON t.trial_id = p.trial_id
WHERE t.study_id = :study AND t.trial_id BETWEEN :first AND :last ORDER BY p.param_id
"""
# What a trial's record is made of, and since when it runs; searches write more.
_USER_ATTRS = """
SELECT a.trial_id, a.key, a.value_json FROM trial_user_attributes a JOIN trials t ON t.trial_id = a.trial_id
WHERE t.study_id = :study AND t.trial_id BETWEEN :first AND :last
AND (a.key IN ('outcome', 'retry_of') OR a.key IN ('pack', 'asked') AND t.state = 'RUNNING')
"""
_SYSTEM_ATTRS = """
SELECT a.trial_id, a.key, a.value_json FROM trial_system_attributes a JOIN trials t ON t.trial_id = a.trial_id
WHERE t.study_id = :study AND t.trial_id BETWEEN :first AND :last AND a.key = 'fixed_params'
"""
# No id is greater in any database.
_NO_END = 2**31 - 1


class State(Enum):
    """How far a trial is, by Optuna's names."""

    RUNNING = 0
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3
    WAITING = 4


@dataclass
class ReadTrial:
    """A trial as :class:`tune_vfl.ledger.trials.LedgerTrial` describes it."""

    number: int
    state: State
    datetime_start: datetime | None
    datetime_complete: datetime | None
    user_attrs: dict[str, Any] = field(default_factory=dict)
    system_attrs: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


class TrialRows:
    """The trials of one study, read anew whenever they are asked for, but for those that had ended before.

    Args:
        place: the ledger.
        study_id: the study's there.
    """

    def __init__(self, place: LedgerStorage, study_id: int) -> None:
        self._place, self._study_id = place, study_id
        self._trials: dict[int, ReadTrial] = {}

    def read(self) -> list[ReadTrial]:
        """Return all trials, by number."""
        patiently(self._catch_up)
        return sorted(self._trials.values(), key=attrgetter("number"))

    def ended(self, ids: Sequence[int]) -> list[ReadTrial]:
        """Hear that trials have ended, and return them as they stand, in this order.

        The caller keeps them: :meth:`read` returns no more than their numbers from now on.
        """
        if not ids:
            return []
        found = patiently(lambda: self._between(min(ids), max(ids)))
        for trial_id in ids:
            self._trials[trial_id] = ReadTrial(found[trial_id].number, State.COMPLETE, None, None)
        return [found[trial_id] for trial_id in ids]

    def _catch_up(self) -> None:
        """Read the trials after the last one before which all are known to have ended, and everything of them."""
        settled = 0
        known = sorted(self._trials.items(), key=lambda item: item[1].number)
        for expected, (trial_id, trial) in enumerate(known):
            if trial.number != expected or not is_finished(trial):
                break
            settled = trial_id
        before = {trial_id: trial for trial_id, trial in known if trial_id <= settled}
        self._trials = before | self._between(settled + 1, _NO_END)

    def _between(self, first: int, last: int) -> dict[int, ReadTrial]:
        """Read the trials with ids from one to another."""
        with self._place.reading() as reader:
            return _trials(reader, self._study_id, first, last)


def _trials(reader: Reader, study_id: int, first: int, last: int) -> dict[int, ReadTrial]:
    """Return the trials with ids from one to another, by id in rising order."""

    def rows(query: str) -> Iterable[Any]:
        return reader.rows(query, study=study_id, first=first, last=last)

    found = {
        trial_id: ReadTrial(number, State[state], _moment(begun), _moment(ended))
        for trial_id, number, state, begun, ended in rows(_TRIALS)
    }
    # A trial that has come since that question has no place among the answers to the next ones.
    for trial_id, name, value, domain in rows(_PARAMS):
        if trial_id in found:
            found[trial_id].params[name] = _value_of(domain)(value)
    for query, kind in ((_USER_ATTRS, "user_attrs"), (_SYSTEM_ATTRS, "system_attrs")):
        for trial_id, key, value in rows(query):
            if trial_id in found:
                getattr(found[trial_id], kind)[key] = value if key == "outcome" else json.loads(value)
    return found


def _moment(held: datetime | str | None) -> datetime | None:
    """Return a moment as a server tells it, or as a file holds it."""
    return datetime.fromisoformat(held) if isinstance(held, str) else held


@cache
def _value_of(domain: str) -> Callable[[float], Any]:
    """Return what turns the number that Optuna writes for a parameter of a domain, given as JSON, into its value."""
    described = json.loads(domain)
    kind = described["name"]
    if kind.startswith("Categorical"):
        choices = described["attributes"]["choices"]
        return lambda value: choices[int(value)]
    return int if kind.startswith("Int") else float

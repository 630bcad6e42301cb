"""Reading a study without Optuna: its tables are read as they are, many times as fast as through its objects.

The tables are those of the Optuna that this program is installed with, which a ledger says that it has. One with others
is left to Optuna, which says in words what is wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger import opening
from tune_vfl.ledger.campaigns import CampaignRecord, Left
from tune_vfl.ledger.held import HeldStudy
from tune_vfl.ledger.joint import joint_answer_in
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trials import is_finished
from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from sqlalchemy import Connection

    from tune_vfl.ledger.database import LedgerStorage

OPTUNA_TABLES = "v3.2.0.a"
"""The version of Optuna's tables that is read here."""

_STUDY = "SELECT study_id FROM studies WHERE study_name = :name"
_STUDY_ATTRS = "SELECT key, value_json FROM study_user_attributes WHERE study_id = :study"
_TRIALS = """
SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials
WHERE study_id = :study AND trial_id > :after ORDER BY trial_id
"""
_PARAMS = """
SELECT p.trial_id, p.param_name, p.param_value, p.distribution_json
FROM trial_params p JOIN trials t ON t.trial_id = p.trial_id
WHERE t.study_id = :study AND t.trial_id > :after ORDER BY p.param_id
"""
# What a trial's record is made of, and since when it runs; searches write more.
_USER_ATTRS = """
SELECT a.trial_id, a.key, a.value_json FROM trial_user_attributes a JOIN trials t ON t.trial_id = a.trial_id
WHERE t.study_id = :study AND t.trial_id > :after
AND (a.key IN ('outcome', 'retry_of') OR a.key IN ('pack', 'asked') AND t.state = 'RUNNING')
"""
_SYSTEM_ATTRS = """
SELECT a.trial_id, a.key, a.value_json FROM trial_system_attributes a JOIN trials t ON t.trial_id = a.trial_id
WHERE t.study_id = :study AND t.trial_id > :after AND a.key = 'fixed_params'
"""


def open_to_read(name: str, storage: str | None = None) -> HeldStudy:
    """Open a study that exists.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when there is none of this name; the message names the nearest.
        UnreachableError: when the database does not answer.
    """
    return _opened(storage_at(storage), name)


def _opened(place: LedgerStorage, name: str) -> HeldStudy:
    found = patiently(lambda: _find(place, name)) if place.exists() else None
    if found is not None:
        return ReadStudy(place, found, name)
    ledger = Ledger.open(name, place.url)
    # It is only read: it begins no trials that would have to count as lost.
    ledger.close()
    return ledger


def open_campaign(name: str, storage: str | None = None) -> HeldCampaign | None:
    """Open a campaign; None where there is none of this name.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        UnreachableError: when the database does not answer.
    """
    place = storage_at(storage)
    found = patiently(lambda: _find(place, name)) if place.exists() else None
    if found is None or _read_attrs(place, found).get("schema") != opening.CAMPAIGN_SCHEMA:
        return None
    return HeldCampaign(place, found, name)


class HeldCampaign:
    """One campaign of a ledger, read anew whenever it is asked.

    Args:
        place: the ledger.
        campaign_id: the campaign's there.
        name: the campaign's.
    """

    def __init__(self, place: LedgerStorage, campaign_id: int, name: str) -> None:
        self.name, self.place, self._id = name, place, campaign_id
        self._parts: dict[str, HeldStudy] = {}

    def parts(self) -> list[HeldStudy]:
        """Return its studies, in the order of its spec."""
        for name in self._attrs()["parts"]:
            if name not in self._parts:
                self._parts[name] = _opened(self.place, name)
        return list(self._parts.values())

    @property
    def spec(self) -> dict[str, Any]:
        """The spec as the user gave it at last."""
        spec: dict[str, Any] = self._attrs()["spec"]
        return spec

    def record(self) -> CampaignRecord:
        """Return the campaign as it stands."""
        attrs, studies = self._attrs(), tuple(part.record() for part in self.parts())
        return CampaignRecord(
            name=self.name,
            studies=studies,
            trials=int(attrs["trials"]),
            constraints=attrs["spec"].get("constraints") or {},
            confidence=float(attrs["spec"].get("confidence", studies[0].spec.confidence)),
            skipped=tuple(Left(s["study"], s["attack"], tuple(s["problems"])) for s in attrs["skipped"]),
            retired=attrs.get("retired", {}),
            confirmation=joint_answer_in(attrs),
        )

    def _attrs(self) -> dict[str, Any]:
        return patiently(lambda: _read_attrs(self.place, self._id))


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


class ReadStudy(HeldStudy):
    """One study, read anew whenever it is asked, but for trials that had ended before.

    Args:
        place: the ledger.
        study_id: the study's there.
        name: the study's.
    """

    def __init__(self, place: LedgerStorage, study_id: int, name: str) -> None:
        self._place, self._study_id = place, study_id
        self._trials: dict[int, ReadTrial] = {}
        super().__init__(opening.read(name, self._attrs()))

    def trials(self) -> list[ReadTrial]:
        """Return all trials, by number."""
        patiently(self._catch_up)
        return sorted(self._trials.values(), key=lambda t: t.number)

    def _attrs(self) -> dict[str, Any]:
        return patiently(lambda: _read_attrs(self._place, self._study_id))

    def _catch_up(self) -> None:
        """Read the trials after the last one before which all have ended, and everything of them."""
        settled = -1
        for trial_id, trial in self._trials.items():
            if not is_finished(trial):
                break
            settled = trial_id
        with self._place.reading() as connection:
            self._trials = {
                **{trial_id: trial for trial_id, trial in self._trials.items() if trial_id <= settled},
                **_trials(connection, self._study_id, settled),
            }


def _find(place: LedgerStorage, name: str) -> int | None:
    """Return a study's id; None where there is none of this name, or the tables are others than those read here."""
    from sqlalchemy import inspect, text

    with place.reading() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        if version != OPTUNA_TABLES:
            return None
        found = connection.execute(text(_STUDY), {"name": name}).scalar_one_or_none()
        return None if found is None else int(found)


def _read_attrs(place: LedgerStorage, study_id: int) -> dict[str, Any]:
    from sqlalchemy import text

    with place.reading() as connection:
        rows = connection.execute(text(_STUDY_ATTRS), {"study": study_id})
        return {key: json.loads(value) for key, value in rows}


def _trials(connection: Connection, study_id: int, after: int) -> dict[int, ReadTrial]:
    """Return the trials with ids after one, by id in rising order."""
    from sqlalchemy import DateTime, text

    def rows(query: str, **kinds: Any) -> Iterable[Any]:
        asked = text(query).columns(**kinds) if kinds else text(query)
        return connection.execute(asked, {"study": study_id, "after": after})

    found = {
        trial_id: ReadTrial(number, State[state], begun, ended)
        for trial_id, number, state, begun, ended in rows(_TRIALS, datetime_start=DateTime, datetime_complete=DateTime)
    }
    # A trial that has come since that question has no place among the answers to the next ones.
    for trial_id, name, value, domain in rows(_PARAMS):
        if trial_id in found:
            found[trial_id].params[name] = _reader(domain)(value)
    for query, kind in ((_USER_ATTRS, "user_attrs"), (_SYSTEM_ATTRS, "system_attrs")):
        for trial_id, key, value in rows(query):
            if trial_id in found:
                getattr(found[trial_id], kind)[key] = value if key == "outcome" else json.loads(value)
    return found


@cache
def _reader(domain: str) -> Callable[[float], Any]:
    """Return what turns the number that Optuna writes for a parameter of a domain, given as JSON, into its value."""
    described = json.loads(domain)
    kind = described["name"]
    if kind.startswith("Categorical"):
        choices = described["attributes"]["choices"]
        return lambda value: choices[int(value)]
    return int if kind.startswith("Int") else float

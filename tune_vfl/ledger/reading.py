"""Reading a study without Optuna: its tables are read as they are, many times as fast as through its objects.

The tables are those of the Optuna that this program is installed with, which a ledger says that it has. One with others
is left to Optuna, which says in words what is wrong.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger import ledger, opening
from tune_vfl.ledger.campaigns import CampaignRecord, Left
from tune_vfl.ledger.held import HeldStudy
from tune_vfl.ledger.joint import joint_answer_in
from tune_vfl.ledger.rows import TrialRows
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.reader import Reader
    from tune_vfl.ledger.rows import ReadTrial

OPTUNA_TABLES = "v3.2.0.a"
"""The version of Optuna's tables that is read here."""

_STUDY = "SELECT study_id FROM studies WHERE study_name = :name"
_NAMES = """
SELECT s.study_name FROM studies s JOIN study_user_attributes a ON a.study_id = s.study_id
WHERE a.key = 'schema' AND a.value_json = :schema
"""
_STUDY_ATTRS = "SELECT key, value_json FROM study_user_attributes WHERE study_id = :study"


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
    opened = ledger.Ledger.open(name, place.url)
    # It is only read: it begins no trials that would have to count as lost.
    opened.close()
    return opened


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
            confirmation=joint_answer_in(attrs),
        )

    def _attrs(self) -> dict[str, Any]:
        return patiently(lambda: _read_attrs(self.place, self._id))


class ReadStudy(HeldStudy):
    """One study, read anew whenever it is asked, but for trials that had ended before.

    Args:
        place: the ledger.
        study_id: the study's there.
        name: the study's.
    """

    def __init__(self, place: LedgerStorage, study_id: int, name: str) -> None:
        self._place, self._study_id = place, study_id
        super().__init__(opening.read(name, self._attrs()), TrialRows(place, study_id))

    def trials(self) -> list[ReadTrial]:
        """Return all trials, by number."""
        return self._rows.read()

    def _attrs(self) -> dict[str, Any]:
        return patiently(lambda: _read_attrs(self._place, self._study_id))


def study_names(storage: str | None = None) -> Sequence[str]:
    """Return the names of all studies in a ledger, sorted."""
    place = storage_at(storage)
    found = patiently(lambda: _names(place)) if place.exists() else None
    return ledger.study_names(storage) if found is None else found


def _names(place: LedgerStorage) -> list[str] | None:
    """Return the names of all studies that tune-vfl made, sorted; None where the tables are others than those here."""
    with place.reading() as reader:
        if not _is_known(reader):
            return None
        return sorted(name for (name,) in reader.rows(_NAMES, schema=json.dumps(opening.LEDGER_SCHEMA)))


def _find(place: LedgerStorage, name: str) -> int | None:
    """Return a study's id; None where there is none of this name, or the tables are others than those read here."""
    with place.reading() as reader:
        return next((int(found) for (found,) in reader.rows(_STUDY, name=name)), None) if _is_known(reader) else None


def _is_known(reader: Reader) -> bool:
    if not reader.has_table("alembic_version"):
        return False
    return [version for (version,) in reader.rows("SELECT version_num FROM alembic_version")] == [OPTUNA_TABLES]


def _read_attrs(place: LedgerStorage, study_id: int) -> dict[str, Any]:
    with place.reading() as reader:
        return {key: json.loads(value) for key, value in reader.rows(_STUDY_ATTRS, study=study_id)}

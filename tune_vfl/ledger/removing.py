"""Taking studies and campaigns out of a ledger, each in one transaction, with its lease held."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import StudyError
from tune_vfl.ledger import opening
from tune_vfl.ledger.lease import forget
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.storages import BaseStorage
    from sqlalchemy import Connection

# What a campaign has found of its studies together, and each of them in view of the others: what stays is measured
# against what is gone. The records of single seeds stay, from which a confirmation finds it again.
_ANSWER = "confirmation"


@dataclass(frozen=True)
class Removal:
    """What goes when a name is removed from a ledger.

    Attributes:
        name: of a campaign, a lone study, or a part of a campaign.
        studies: which go.
        trials: how many they have.
        campaign: it goes with all its studies, or goes on without this one; empty for a lone study.
        staying: the campaign's other studies.
        confirmed: the campaign has the answer of a confirmation, which compares what goes with what stays.
        tracking: the specs' ``tracking``.
        storage: the ledger.
    """

    name: str
    studies: tuple[str, ...]
    trials: int
    campaign: str
    staying: tuple[str, ...]
    confirmed: bool
    tracking: str | None
    storage: str | None

    @property
    def whole(self) -> bool:
        """Whether it is a campaign, or a lone study."""
        return not self.staying

    def __str__(self) -> str:
        what = f"{self.name}: "
        if self.name == self.campaign:
            what += f"a campaign of {len(self.studies)} studies, "
        elif self.campaign:
            what += f"a study of campaign {self.campaign}, which goes on with {len(self.staying)}, "
        else:
            what += "a study, "
        gone = "; the campaign's confirmation goes too, 'confirm' makes it anew" if self.confirmed else ""
        return f"{what}{self.trials} trials{gone if self.staying else ''}"


def removal_of(name: str, storage: str | None = None) -> Removal:
    """Say what would go, and change nothing. There must be a ledger.

    Raises:
        StudyError: when there is nothing of this name, or it is the last study of a campaign.
        UnreachableError: when the ledger does not answer.
    """
    place = storage_at(storage)
    opened = place.open()
    try:
        return _removal(name, opened, place.shown, storage)
    finally:
        opened.remove_session()


def remove(name: str, storage: str | None = None) -> Removal:
    """Remove a study or a campaign with everything that the ledger has of it, its lease too.

    A part is taken out of its campaign, whose confirmation goes: it compared what stays with what is gone.

    Returns:
        What is gone.

    Raises:
        StudyError: as :func:`removal_of`, and while somebody runs it.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    place = storage_at(storage)
    with place.lease(name) as lease:
        opened = place.open(lease)
        try:
            gone = _removal(name, opened, place.shown, storage)
            engine = place.for_leases()
            lease.guard(engine)

            def attempt() -> Removal:
                with engine.begin() as connection:
                    rows = gone.studies if not gone.campaign or gone.staying else (*gone.studies, gone.campaign)
                    _delete(connection, rows)
                    if gone.staying:
                        _leave(connection, gone)
                    for row in rows:
                        forget(connection, row)
                return gone

            return patiently(attempt)
        finally:
            opened.remove_session()


def _removal(name: str, opened: BaseStorage, shown: str, storage: str | None) -> Removal:
    attrs = _attrs(opened, name)
    if attrs is None:
        raise StudyError(opening.nowhere(opened, name, shown))
    campaign = name if attrs["schema"] == opening.CAMPAIGN_SCHEMA else str(attrs.get("campaign", ""))
    whole = _attrs(opened, campaign) if campaign else None
    held = () if whole is None else tuple(whole["parts"])
    studies = held if name == campaign else (name,)
    staying = tuple(part for part in held if part not in studies)
    if whole is not None and name != campaign and not staying:
        raise StudyError(f"{name!r} is the last study of campaign {campaign!r}: remove the campaign")
    there = {study: found for study in studies if (found := _attrs(opened, study)) is not None}
    ids = [opened.get_study_id_from_name(study) for study in there]
    return Removal(
        name=name,
        studies=studies,
        trials=sum(opened.get_n_trials(study_id) for study_id in ids),
        campaign=campaign if whole is not None else "",
        staying=staying,
        confirmed=bool(whole and whole.get(_ANSWER)),
        tracking=next((found["spec"].get("tracking") for found in there.values()), None),
        storage=storage,
    )


def _attrs(opened: BaseStorage, name: str) -> Mapping[str, Any] | None:
    try:
        attrs: Mapping[str, Any] = opened.get_study_user_attrs(opened.get_study_id_from_name(name))
    except KeyError:
        return None
    return attrs if attrs.get("schema") in (opening.LEDGER_SCHEMA, opening.CAMPAIGN_SCHEMA) else None


def _delete(connection: Connection, names: Sequence[str]) -> None:
    """Delete studies with all that hangs on them: Optuna would read every row first."""
    import sqlalchemy
    from optuna.storages._rdb import models

    tables = models.BaseModel.metadata
    studies, trials = tables.tables["studies"], tables.tables["trials"]
    gone = sqlalchemy.select(studies.c.study_id).where(studies.c.study_name.in_(names))
    theirs = sqlalchemy.select(trials.c.trial_id).where(trials.c.study_id.in_(gone))
    for table in reversed(tables.sorted_tables):  # what refers to another comes before it
        if table is studies:
            connection.execute(sqlalchemy.delete(table).where(table.c.study_name.in_(names)))
        elif "study_id" in table.c:
            connection.execute(sqlalchemy.delete(table).where(table.c.study_id.in_(gone)))
        elif "trial_id" in table.c:
            connection.execute(sqlalchemy.delete(table).where(table.c.trial_id.in_(theirs)))


def _leave(connection: Connection, gone: Removal) -> None:
    """Take studies out of what is written of their campaign."""
    import sqlalchemy
    from optuna.storages._rdb import models

    tables = models.BaseModel.metadata.tables
    studies, attrs = tables["studies"], tables["study_user_attributes"]

    def of(*names: str) -> Any:
        chosen = sqlalchemy.select(studies.c.study_id).where(studies.c.study_name.in_(names))
        return attrs.c.study_id.in_(chosen)

    rows = connection.execute(sqlalchemy.select(attrs.c.key, attrs.c.value_json).where(of(gone.campaign))).all()
    held = {key: json.loads(value) for key, value in rows}
    budgets = sqlalchemy.select(attrs.c.value_json).where(of(*gone.staying), attrs.c.key == "trials")
    new: dict[str, Any] = {"parts": list(gone.staying)}
    new["trials"] = sum(int(value) for value in connection.execute(budgets).scalars())
    for key, value in new.items():
        if key in held:
            change = sqlalchemy.update(attrs).where(of(gone.campaign), attrs.c.key == key)
            connection.execute(change.values(value_json=json.dumps(value)))
    answers = sqlalchemy.delete(attrs).where(of(gone.campaign, *gone.staying), attrs.c.key == _ANSWER)
    if gone.confirmed:
        connection.execute(answers)

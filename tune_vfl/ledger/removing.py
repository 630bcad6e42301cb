"""Removal of studies and campaigns, each in one transaction under its lease."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Text, delete, func, or_, select, type_coerce, update

from tune_vfl.errors import StudyError
from tune_vfl.ledger.names import campaign_names, parts_of, refuse_unknown
from tune_vfl.ledger.schema import campaigns, confirmations, leases, studies, trials
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.checked_json import DamagedValueError, load
from tune_vfl.machine.passwords import StudyUrl
from tune_vfl.spec.listed import absolute_paths


@dataclass(frozen=True)
class Removal:
    """The records that a removal deletes.

    Attributes:
        name: of the study or the campaign.
        studies: the deleted studies.
        trials: their number of trials.
        campaign: their campaign; empty for a study of none.
        staying: the campaign's other studies.
        confirmed: whether the campaign has the answer of a confirmation, which a removal of one study deletes too.
        tracking: the specs' ``tracking``, a :class:`tune_vfl.machine.passwords.StudyUrl`.
        files: the data files that the studies name.
        storage: the ledger.
        id: of the study or the campaign, by which its runs in MLflow are found.
    """

    name: str
    studies: tuple[str, ...]
    trials: int
    campaign: str
    staying: tuple[str, ...]
    confirmed: bool
    tracking: str | None
    files: tuple[Path, ...]
    storage: str | None
    id: str

    @property
    def whole(self) -> bool:
        """Whether nothing of its campaign stays."""
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
    """Return what :func:`remove` would delete; the ledger must exist.

    Raises:
        StudyError: when there is nothing of this name, or it is the last study of a campaign.
        UnreachableError: when the ledger does not answer.
    """
    place = storage_at(storage)
    return place.read(lambda connection: _removal(name, connection, place.shown, storage))


def remove(name: str, storage: str | None = None) -> Removal:
    """Delete a study or a campaign with all its rows, its lease included.

    The removal of one study deletes its campaign's confirmation too, which compared all studies.

    Returns:
        The deleted records.

    Raises:
        StudyError: as :func:`removal_of`, and while a process runs it.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    place = storage_at(storage)
    with place.lease(name) as lease:
        gone = removal_of(name, storage)
        place.write(lambda connection: _delete(connection, gone), lease)
        names = [*gone.studies, gone.campaign] if gone.whole else gone.studies
        place.write(lambda connection: connection.execute(delete(leases).where(leases.c.name.in_(names))))
    return gone


def _removal(name: str, connection: Connection, shown: str, storage: str | None) -> Removal:
    there = campaign_names(connection)
    row = connection.execute(select(studies.c.campaign).where(studies.c.name == name)).one_or_none()
    refuse_unknown(connection, name, shown)
    campaign = name if row is None else str(row.campaign)
    parts = parts_of(connection, campaign) if campaign else [name]
    going = tuple(parts) if row is None else (name,)
    staying = tuple(part for part in parts if part not in going)
    if campaign in there and row is not None and not staying:
        raise StudyError(f"{name!r} is the last study of campaign {campaign!r}: remove the campaign")
    count = select(func.count()).select_from(trials).where(trials.c.study.in_(going))
    answer = select(campaigns.c.name).where(campaigns.c.name == campaign, campaigns.c.confirmation.is_not(None))
    # As texts: what is damaged can be removed.
    cells = connection.execute(select(type_coerce(studies.c.cell, Text)).where(studies.c.name.in_(going))).scalars()
    specs = connection.execute(select(type_coerce(studies.c.spec, Text)).where(studies.c.name.in_(going))).scalars()
    tracking = next((spec.get("tracking") for spec in _undamaged(specs)), None)
    return Removal(
        name=name,
        studies=going,
        trials=int(connection.execute(count).scalar_one()),
        campaign=campaign,
        staying=staying,
        confirmed=connection.execute(answer).scalar_one_or_none() is not None,
        tracking=None if tracking is None else StudyUrl(tracking),
        files=tuple(dict.fromkeys(path for cell in _undamaged(cells) for path in _files(cell))),
        storage=storage,
        id=next(iter(connection.execute(select(studies.c.id).where(studies.c.name.in_(going))).scalars()), ""),
    )


def _undamaged(texts: Iterable[str]) -> Iterator[Any]:
    for text in texts:
        with suppress(DamagedValueError):
            yield load(text)


def data_files(connection: Connection, of: str | None = None) -> list[Path]:
    """Return the data files that studies name.

    Args:
        connection: to the ledger.
        of: a study or a campaign; None is all studies.
    """
    wanted = select(studies.c.cell)
    if of is not None:
        wanted = wanted.where(or_(studies.c.name == of, studies.c.campaign == of))
    return [path for cell in connection.execute(wanted).scalars() for path in _files(cell)]


def _files(cell: Mapping[str, Any]) -> list[Path]:
    return [Path(path) for path in absolute_paths(cell)]


def _delete(connection: Connection, gone: Removal) -> None:
    """Delete the rows of a removal; a repetition changes nothing."""
    connection.execute(delete(studies).where(studies.c.name.in_(gone.studies)))
    for table in (trials, confirmations):
        connection.execute(delete(table).where(table.c.study.in_(gone.studies)))
    if gone.staying:
        budgets = select(func.sum(studies.c.trials)).where(studies.c.name.in_(gone.staying)).scalar_subquery()
        whole = update(campaigns).where(campaigns.c.name == gone.campaign)
        connection.execute(whole.values(trials=budgets, confirmation=None))
        if gone.confirmed:
            connection.execute(update(studies).where(studies.c.name.in_(gone.staying)).values(confirmation=None))
    elif gone.campaign:
        connection.execute(delete(campaigns).where(campaigns.c.name == gone.campaign))

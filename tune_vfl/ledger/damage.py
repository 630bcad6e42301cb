"""Damaged rows of a ledger: found by their checksums, named, and mended as far as a search can measure them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, Text, and_, delete, select, type_coerce, update

from tune_vfl.errors import TuneVflError, shortened
from tune_vfl.ledger.schema import Json, campaigns, confirmations, studies, trials
from tune_vfl.ledger.trials import MOMENTS, ending_of, is_moment
from tune_vfl.machine.checked_json import DamagedValueError, load
from tune_vfl.outcome import Outcome
from tune_vfl.records.confirmations import UNDEFENDED

_SHOWN = 5
_LOST = "its row in the ledger was damaged"
# What is measured once a study, together.
_REFERENCES = ("reference_scores", "reference_point", "baseline")
# Without these there is no study and no campaign.
_PLAN = ("spec", "cell", "space")


class Damage(NamedTuple):
    """A value that is not what was written.

    Attributes:
        table: that holds it.
        key: the primary key of its row.
        column: its column.
    """

    table: Table
    key: Mapping[str, Any]
    column: str

    @property
    def name(self) -> str:
        """The study, or the campaign."""
        return str(self.key.get("study", self.key.get("name")))

    def __str__(self) -> str:
        row = [f"{'campaign' if self.table is campaigns else 'study'} {self.name!r}"]
        if self.table is trials or self.table is confirmations:
            number = self.key["number"]
            row.append("undefended model" if number == UNDEFENDED else f"trial {number}")
        if self.table is confirmations:
            row.append(f"confirmation with seed {self.key['seed']}")
        return f"{', '.join(row)}: {self.column}"


class DamagedError(TuneVflError):
    """Rows of a ledger that are not what was written; studies without such a row are not concerned."""

    anchor = "damaged-rows"

    def __init__(self, place: str, found: Sequence[Damage]) -> None:
        self.found = found
        super().__init__(
            f"the ledger {place} has damaged rows: {listed(found)}. Other studies are not concerned. Restore a backup, "
            "or let 'tune-vfl doctor --repair' say what is lost and free it to be measured again"
        )


def listed(found: Sequence[Damage]) -> str:
    """Return a line that names the first of some damaged values, and the number of the others."""
    return shortened([str(one) for one in found], _SHOWN, "; ")


@contextmanager
def damage_named(connection: Connection, place: str) -> Iterator[None]:
    """Raise :class:`DamagedError` for a damaged value that the block has read, with all that the ledger has."""
    try:
        yield
    except DamagedValueError as error:
        raise DamagedError(place, find_damage(connection)) from error


def find_damage(connection: Connection, names: Collection[str] | None = None) -> list[Damage]:
    """Compare every value with its checksum, a trial's columns with its whole outcome, its times with the calendar.

    Args:
        connection: to the ledger.
        names: of studies and campaigns; None is all of them.
    """
    found = []
    for table in (campaigns, studies, trials, confirmations):
        texts = [column for column in table.c if isinstance(column.type, Json)]
        columns = [type_coerce(c, Text).label(c.name) if c in texts else c for c in table.c]
        key = [column.name for column in table.primary_key]
        wanted = select(*columns).order_by(*table.primary_key)
        if names is not None:
            wanted = wanted.where(table.c[key[0]].in_(names))
        for row in connection.execute(wanted, execution_options={"yield_per": 100}).mappings():
            bad = [c.name for c in texts if not _intact(row[c.name])]
            if table is trials and not bad and not _agrees(dict(row)):
                bad = ["result"]
            bad += [name for name in MOMENTS if name in row and not is_moment(row[name])]
            found += [Damage(table, {name: row[name] for name in key}, name) for name in bad]
    return found


def _intact(text: str | None) -> bool:
    try:
        load(text or "null")
    except DamagedValueError:
        return False
    return True


def _agrees(row: Mapping[str, Any]) -> bool:
    """Return whether the columns of a trial that conditions read are those of its whole outcome."""
    try:
        ending = ending_of(None if row["result"] is None else Outcome.model_validate_json(row["result"]))
    except ValueError:
        return False
    return all(row[name] == value for name, value in ending.items())


def mend(connection: Connection, found: Sequence[Damage]) -> list[str]:
    """Free what is damaged to be measured again; a spec cannot be.

    Args:
        connection: to the ledger, in a transaction that holds the lease.
        found: damaged values of one study or campaign.

    Returns:
        A sentence on each row that was changed, or cannot be.
    """
    rows: dict[tuple[str, tuple[Any, ...]], list[Damage]] = defaultdict(list)
    for damage in found:
        rows[damage.table.name, tuple(damage.key.values())].append(damage)
    return [_mend_row(connection, damages) for damages in rows.values()]


def _mend_row(connection: Connection, damages: Sequence[Damage]) -> str:
    table, key, name = damages[0].table, damages[0].key, damages[0].name
    there = and_(*(table.c[column] == value for column, value in key.items()))
    columns = [damage.column for damage in damages]
    said = f"{damages[0]}{''.join(f', {column}' for column in columns[1:])}"
    if table is confirmations:
        connection.execute(delete(table).where(there))
        return f"{said}: lost, 'tune-vfl confirm {name}' measures it again"
    if lost := [column for column in columns if column in _PLAN]:
        way = f"restore a backup, or remove it ('tune-vfl study rm {name}')"
        return f"{said}: lost, and nothing is without its {lost[0]}: {way}"
    if table is trials:
        connection.execute(update(table).where(there).values(_freed_trial(columns)))
        again = f"'tune-vfl resume {name}' measures it again"
        return f"{said}: lost, {again if {'params', 'result'} & {*columns} else 'which changes no score'}"
    connection.execute(update(table).where(there).values(_freed(columns)))
    return f"{said}: lost, 'tune-vfl resume {name}' and 'confirm' measure again what is missing"


def _freed_trial(columns: Collection[str]) -> dict[str, Any]:
    empty: dict[str, Any] = {"params": {}, "sampler": {}, **dict.fromkeys(MOMENTS, 0.0)}
    values = {name: empty.get(name) for name in columns}
    if {"params", "result"} & {*columns}:
        gone = Outcome.failed("preempted", _LOST)
        values |= {"result": gone.model_dump(mode="json"), "lost": "driver", **ending_of(gone)}
    return values


def _freed(columns: Collection[str]) -> dict[str, Any]:
    if {*_REFERENCES} & {*columns}:
        columns = {*columns, *_REFERENCES}
    return {name: [] if name == "skipped" else None for name in columns}

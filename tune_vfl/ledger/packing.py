"""Export of studies and campaigns from a ledger, and import into another one."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, insert, select

from tune_vfl.errors import StudyError
from tune_vfl.ledger.names import campaign_names, parts_of, refuse_unknown
from tune_vfl.ledger.reading import refuse_no_ledger
from tune_vfl.ledger.schema import campaigns, confirmations, new_study_id, studies, trials
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trials import ending_of
from tune_vfl.records.packed import Packed
from tune_vfl.records.rows import CampaignRow, SeedRow, StudyRow, TrialRow
from tune_vfl.spec import Strict

Unpacked = Literal["new", "same"]

# Of a spec, these say where a study is kept, and not what it is.
_STAYS_BEHIND = ("storage", "tracking")

_ROWS: dict[Table, type[Strict]] = {
    campaigns: CampaignRow,
    studies: StudyRow,
    trials: TrialRow,
    confirmations: SeedRow,
}
"""What is packed of each table. Its other columns stay: they are a process's, a machine's or the ledger's own."""


def pack(name: str, storage: str | None = None) -> Packed:
    """Pack the current state of a study or a campaign; one study of a campaign is packed without it.

    Raises:
        StudyError: when there is nothing of this name.
        ParcelError: when it holds what tune-vfl has not written.
        UnreachableError: when the ledger does not answer.
    """
    refuse_no_ledger(name, storage)
    place = storage_at(storage)

    def ask(connection: Connection) -> Packed:
        refuse_unknown(connection, name, place.shown)
        return _packed(connection, name)

    return place.read(ask)


def unpack(packed: Packed, storage: str | None = None) -> Unpacked:
    """Import a study or a campaign into a ledger, in one transaction; nothing is overwritten.

    Args:
        packed: the study or campaign.
        storage: the ledger, see :func:`tune_vfl.ledger.storage.storage_at`.

    Returns:
        ``new``, or ``same`` where the ledger holds the very same already.

    Raises:
        StudyError: when one of its names is taken, also by the same with more or less, or a process runs it; nothing
            is written then.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    place = storage_at(storage)
    begun = False

    def put(connection: Connection) -> Unpacked:
        nonlocal begun
        problems = _taken(connection, packed)
        if not problems:
            begun = True
            _insert(connection, packed)
            return "new"
        if problems == [""]:
            return "new" if begun else "same"  # an attempt whose answer was lost has put it there
        raise StudyError(
            f"in the ledger {place.shown} already: {'; '.join(problems)}. Nothing was written; give what comes another "
            f"name (--name NEW), or remove what is here first ('tune-vfl study rm {packed.name}')"
        )

    with place.lease(packed.name) as lease:
        return place.write(put, lease)


def _taken(connection: Connection, packed: Packed) -> list[str]:
    """Return the reasons that refuse an import; one empty text where the ledger holds the very same."""
    held = campaign_names(connection)
    names = [study.name for study in packed.studies]
    rows = select(studies.c.name, studies.c.campaign).where(studies.c.name.in_([*names, packed.name]))
    there = {row.name: str(row.campaign) for row in connection.execute(rows)}
    problems = [f"{name!r} is a campaign" for name in names if name in held]
    if packed.campaign and packed.name in there:
        problems.append(f"{packed.name!r} is a study")
    if problems or (not there and packed.name not in held):
        return problems
    own = packed.name if packed.campaign else ""
    problems = [
        f"study {name!r} is {f'a part of campaign {of!r}' if of else 'a study of its own'}"
        for name, of in there.items()
        if of != own and packed.campaign
    ]
    if problems or (packed.campaign and packed.name not in held):
        return problems
    # One study packed without its campaign is compared with the study that it was packed from.
    return [_packed(connection, packed.name).difference(packed)]


def _packed(connection: Connection, name: str) -> Packed:
    names = parts_of(connection, name)
    single = not names
    names = names or [name]
    whole = _rows(connection, campaigns, campaigns.c.name == name)
    held = _rows(connection, studies, studies.c.name.in_(names))
    for row in (*whole, *held):
        row["spec"] = {key: value for key, value in row["spec"].items() if key not in _STAYS_BEHIND}
    for row in held if single else ():
        row |= {"campaign": "", "place": 0}
    rows = {
        "campaigns": whole,
        "studies": sorted(held, key=lambda row: names.index(row["name"])),
        "trials": _rows(connection, trials, trials.c.study.in_(names)),
        "confirmations": _rows(connection, confirmations, confirmations.c.study.in_(names)),
    }
    for place, row in enumerate(rows["studies"]):
        row["place"] = place  # of one that was taken out there is a gap
    return Packed.checked(rows, f"{name!r} cannot be packed")


def _rows(connection: Connection, table: Table, of: ColumnElement[bool]) -> list[dict[str, Any]]:
    columns = [table.c[name] for name in _ROWS[table].model_fields]
    found = connection.execute(select(*columns).where(of).order_by(*table.primary_key)).mappings()
    return [{key: value for key, value in row.items() if value is not None} for row in found]


def _insert(connection: Connection, packed: Packed) -> None:
    rows = packed.model_dump(mode="json", by_alias=True)
    for trial, given in zip(rows["trials"], packed.trials, strict=True):
        trial |= {"session": "", **ending_of(given.result)}
    identity = new_study_id()
    for study in rows["studies"]:
        study["id"] = identity
    for table in _ROWS:
        if rows[table.name]:
            connection.execute(insert(table), rows[table.name])

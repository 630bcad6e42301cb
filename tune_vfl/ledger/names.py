"""Queries for the names of studies and campaigns."""

from __future__ import annotations

from sqlalchemy import Connection, select

from tune_vfl.errors import StudyError, did_you_mean
from tune_vfl.ledger.schema import campaigns, studies

_LISTED = 20


def names_in(connection: Connection) -> list[str]:
    """Return the names of all studies, sorted."""
    return sorted(connection.execute(select(studies.c.name)).scalars())


def wholes_in(connection: Connection) -> list[str]:
    """Return the names of all campaigns and single studies, sorted."""
    rows = connection.execute(select(studies.c.name, studies.c.campaign))
    return sorted({str(row.campaign or row.name) for row in rows})


def campaign_names(connection: Connection) -> list[str]:
    """Return the names of all campaigns, sorted."""
    return sorted(connection.execute(select(campaigns.c.name)).scalars())


def parts_of(connection: Connection, campaign: str) -> list[str]:
    """Return the names of a campaign's studies, in the order of its spec."""
    wanted = select(studies.c.name).where(studies.c.campaign == campaign).order_by(studies.c.place)
    return list(connection.execute(wanted).scalars())


def refuse_unknown(connection: Connection, name: str, shown: str) -> None:
    """Refuse a name that neither a study nor a campaign has.

    Args:
        connection: to the ledger.
        name: of a study or a campaign.
        shown: the ledger's URL without its password.

    Raises:
        StudyError: with the ledger, the known names, and the nearest of them.
    """
    held = names_in(connection)
    known, where = sorted([*held, *campaign_names(connection)]), f"in the ledger {shown}"
    if name in known:
        return
    if not known:
        other = "TUNE_VFL_HOME, TUNE_VFL_STORAGE or --storage names another"
        raise StudyError(f"no study {name!r} {where}, which is empty; {other}")
    more = f" and {len(known) - _LISTED} more, see 'tune-vfl studies'" if len(known) > _LISTED else ""
    several = f"{len(held)} studies" if len(held) != 1 else "one study"
    raise StudyError(
        f"no study {name!r} {where}, which holds {several}.{did_you_mean(name, known)} Known: "
        f"{', '.join(known[:_LISTED])}{more}. TUNE_VFL_HOME, TUNE_VFL_STORAGE or --storage names another ledger."
    )

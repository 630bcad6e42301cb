"""Creation of studies and campaigns, or the check that existing ones have the same spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, insert, select, update

from tune_vfl.errors import StudyError
from tune_vfl.ledger.names import campaign_names, names_in, parts_of
from tune_vfl.ledger.schema import campaigns, new_study_id, studies
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.measure import refuse_another
from tune_vfl.records.plans import PlannedStudy

# What a study's newest spec says, whatever it began with: it changes no trial.
_NEWEST = ("constraints", "confidence", "start", "stop")


def make_or_find(connection: Connection, campaign: PlannedCampaign) -> list[PlannedStudy]:
    """Create a campaign and its studies where they do not exist yet.

    More trials extend an existing study. Studies of an earlier spec of the campaign stay.

    Returns:
        The studies as stored.

    Raises:
        StudyError: with all that differs, when a name is taken by something else; nothing is written then.
    """
    asked = [study.as_held() for study in campaign.studies]
    held = refuse_taken(connection, campaign)
    order = list(dict.fromkeys([*parts_of(connection, campaign.name), *(study.name for study in asked)]))
    if not campaign.lone:
        _write_campaign(connection, campaign)
    identity = _id_of(connection, campaign, held.values())
    found = []
    for study in asked:
        place, row = order.index(study.name), held[study.name]
        if row is not None:
            found.append(_extended(connection, study, row, place, identity))
        else:
            found.append(replace(study, id=identity))
            new = {"name": study.name, "place": place, "trials": study.spec.budget.trials, "id": identity}
            connection.execute(insert(studies).values(**new, **study.dumped()))
    return found


def _id_of(connection: Connection, campaign: PlannedCampaign, held: Iterable[Mapping[str, Any] | None]) -> str:
    """Return the id of a study or a campaign: that of its studies where there are some, a new one else.

    A study of its own that joins a campaign takes the id of the campaign.
    """
    of = select(studies.c.id).where(studies.c.campaign == campaign.name).limit(1)
    ids = [*connection.execute(of).scalars(), *(row["id"] for row in held if row is not None)]
    return str(ids[0]) if ids else new_study_id()


def refuse_taken(connection: Connection, campaign: PlannedCampaign) -> dict[str, Mapping[str, Any] | None]:
    """Refuse the names of a campaign and of its studies where they are taken by something else; nothing is written.

    Returns:
        The existing row of each study by its name; None for a new one.

    Raises:
        StudyError: with all that differs.
    """
    problems: list[str] = []
    rows: dict[str, Mapping[str, Any] | None] = {}
    if campaign.name in {*names_in(connection)} - {study.name for study in campaign.studies}:
        problems.append(
            f"{campaign.name!r} is a study, and cannot be the name of a campaign too: give the campaign another name "
            "(--set study=NAME)"
        )
    for study in (study.as_held() for study in campaign.studies):
        found = connection.execute(select(studies).where(studies.c.name == study.name)).mappings().one_or_none()
        row = rows[study.name] = None if found is None else dict(found)
        try:
            if row is not None:
                _refuse_another(PlannedStudy.read(row), study)
            elif study.name in campaign_names(connection):
                raise StudyError(
                    f"{study.name!r} is a campaign, and cannot be the name of a study too (--set study=NAME)"
                )
        except StudyError as error:
            problems.append(str(error))
    if problems:
        raise StudyError("\n".join(problems))
    return rows


def _refuse_another(held: PlannedStudy, asked: PlannedStudy) -> None:
    """Refuse a study of the same name with another spec, of another measure, or of another campaign."""
    name = asked.name
    refuse_another(name, held.measure)
    different = held.difference(asked)
    if different:
        raise StudyError(
            f"study {name!r} exists with another spec:\n  " + "\n  ".join(different) + "\n"
            "Give this one another name (--set study=NAME). More trials are the same study, other fields are not."
        )
    if asked.campaign and held.campaign and held.campaign != asked.campaign:
        raise StudyError(
            f"study {name!r} is a part of campaign {held.campaign!r}; give this campaign another name "
            "(--set study=NAME), or go on with that one"
        )


def _extended(
    connection: Connection, asked: PlannedStudy, row: Mapping[str, Any], place: int, identity: str
) -> PlannedStudy:
    """Store the changes of a newer spec, and return the study with them."""
    held = PlannedStudy.read(row)
    newest = {n: v for n in _NEWEST if (v := getattr(asked.spec, n)) != getattr(held.spec, n)}
    spec = held.spec.model_copy(update=newest)
    now = replace(held, campaign=asked.campaign or held.campaign, spec=spec, id=identity)
    budget = asked.spec.budget.trials
    more = budget > max(held.spec.budget.trials, row["trials"])
    new = {
        **({"spec": now.dumped()["spec"]} if newest else {}),
        **({"campaign": now.campaign, "place": place, "id": identity} if now.campaign != held.campaign else {}),
        **({"trials": budget} if more else {}),
    }
    if new:
        connection.execute(update(studies).where(studies.c.name == asked.name).values(new))
    return now


def _write_campaign(connection: Connection, campaign: PlannedCampaign) -> None:
    """Store a campaign, or update it by a newer spec."""
    there = campaigns.c.name == campaign.name
    before = connection.execute(select(campaigns.c.trials).where(there)).scalar_one_or_none()
    row = {
        "spec": to_jsonable_python(campaign.spec),
        "skipped": [asdict(left) for left in campaign.skipped],
        "trials": max(campaign.trials, before or 0),
    }
    if before is None:
        connection.execute(insert(campaigns).values(name=campaign.name, **row))
    else:
        connection.execute(update(campaigns).where(there).values(row))

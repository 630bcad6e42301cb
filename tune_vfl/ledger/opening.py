"""Making, finding and listing the studies and campaigns of a ledger."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from tune_vfl.errors import StudyError, did_you_mean
from tune_vfl.ledger.measure import refuse_another
from tune_vfl.ledger.planned import PlannedStudy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from optuna.storages import BaseStorage

    from tune_vfl.ledger.campaigns import PlannedCampaign

LEDGER_SCHEMA = "tune-vfl/ledger/1"
CAMPAIGN_SCHEMA = "tune-vfl/campaign-ledger/1"

# What Optuna's own dashboard calls the objectives.
_OBJECTIVES = "study:metric_names"
# What a study's newest spec says, whatever it began with: it changes no trial.
_NEWEST = ("constraints", "confidence")


def create_or_open(storage: BaseStorage, study: PlannedStudy) -> tuple[int, PlannedStudy]:
    """Return a study's id and the study as the ledger holds it, written first if need be.

    A spec that asks for more trials than it did extends the study.

    Args:
        storage: the database.
        study: as :meth:`PlannedStudy.as_held` gives it.

    Raises:
        StudyError: when the name is taken by a study of another spec or of another measure.
    """
    study_id, attrs = _make(storage, study.name)
    if "schema" not in attrs:
        # New, or its making was interrupted: the schema is written last.
        for key, value in {**study.dumped(), "trials": study.spec.budget.trials, "schema": LEDGER_SCHEMA}.items():
            storage.set_study_user_attr(study_id, key, value)
        return study_id, study
    held = _same(study, attrs)
    newest = {n: v for n in _NEWEST if (v := getattr(study.spec, n)) != getattr(held.spec, n)}
    now = replace(held, campaign=study.campaign or held.campaign, spec=held.spec.model_copy(update=newest))
    changed = (["spec"] if newest else []) + (["campaign"] if now.campaign != held.campaign else [])
    for key in changed:
        storage.set_study_user_attr(study_id, key, now.dumped()[key])
    asked = study.spec.budget.trials
    if asked > max(held.spec.budget.trials, int(attrs["trials"])):
        storage.set_study_user_attr(study_id, "trials", asked)
    return study_id, now


def refuse_others(storage: BaseStorage, studies: Iterable[PlannedStudy]) -> None:
    """Refuse names that are taken, before anything is written.

    Raises:
        StudyError: with everything that differs, as :func:`create_or_open` does for one study.
    """
    problems = []
    for study in studies:
        try:
            attrs = storage.get_study_user_attrs(storage.get_study_id_from_name(study.name))
            if "schema" in attrs:
                _same(study.as_held(), attrs)
        except KeyError:  # there is none
            continue
        except StudyError as error:
            problems.append(str(error))
    if problems:
        raise StudyError("\n".join(problems))


def keep_campaign(storage: BaseStorage, campaign: PlannedCampaign) -> None:
    """Write a campaign, or what a spec now asks of it. Parts that an earlier spec has asked for stay.

    Raises:
        StudyError: when its name is that of a study.
    """
    study_id, attrs = _make(storage, campaign.name)
    if attrs.get("schema", CAMPAIGN_SCHEMA) != CAMPAIGN_SCHEMA:
        raise StudyError(
            f"{campaign.name!r} is a study, and cannot be the name of a campaign too: give the campaign another name "
            "(--set study=NAME)"
        )
    new = {
        "spec": to_jsonable_python(campaign.spec),
        "parts": list(dict.fromkeys([*attrs.get("parts", ()), *(s.name for s in campaign.studies)])),
        "skipped": [asdict(left) for left in campaign.skipped],
        "trials": max(campaign.trials, int(attrs.get("trials", 0))),
        "schema": CAMPAIGN_SCHEMA,
    }
    _change(storage, study_id, attrs, new)


def put_campaign(storage: BaseStorage, name: str, attrs: Mapping[str, Any]) -> None:
    """Write what a ledger holds of a campaign as it stands elsewhere, and make its parts its own; they are there."""
    study_id, held = _make(storage, name)
    _change(storage, study_id, held, {**attrs, "schema": CAMPAIGN_SCHEMA})
    for part in attrs["parts"]:
        part_id = storage.get_study_id_from_name(part)
        _change(storage, part_id, storage.get_study_user_attrs(part_id), {"campaign": name})


def _change(storage: BaseStorage, study_id: int, held: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if held.get(key) != value:
            storage.set_study_user_attr(study_id, key, value)


def _make(storage: BaseStorage, name: str) -> tuple[int, Mapping[str, Any]]:
    """Return the id and the attributes of Optuna's study of a name, made if need be."""
    from optuna.exceptions import DuplicatedStudyError
    from optuna.study import StudyDirection

    try:
        study_id = storage.create_new_study([StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE], name)
    except DuplicatedStudyError:
        study_id = storage.get_study_id_from_name(name)
    if _OBJECTIVES not in storage.get_study_system_attrs(study_id):  # also of a study that is older than this
        storage.set_study_system_attr(study_id, _OBJECTIVES, ["utility", "leakage"])
    return study_id, storage.get_study_user_attrs(study_id)


def _same(study: PlannedStudy, attrs: Mapping[str, Any]) -> PlannedStudy:
    """Return a study as the ledger holds it, which must be this one.

    Raises:
        StudyError: when it is another one, of another measure, or of another campaign.
    """
    name = study.name
    held = read(name, attrs)
    refuse_another(name, held.measure)
    different = held.difference(study)
    if different:
        raise StudyError(
            f"study {name!r} exists with another spec:\n  " + "\n  ".join(different) + "\n"
            "Give this one another name (--set study=NAME). More trials are the same study, other fields are not."
        )
    if study.campaign and held.campaign and held.campaign != study.campaign:
        raise StudyError(
            f"study {name!r} is a part of campaign {held.campaign!r}; give this campaign another name "
            "(--set study=NAME), or go on with that one"
        )
    return held


def campaigns(storage: BaseStorage) -> list[str]:
    """Return the names of all campaigns, sorted."""
    return sorted(s.study_name for s in storage.get_all_studies() if s.user_attrs.get("schema") == CAMPAIGN_SCHEMA)


def find(storage: BaseStorage, name: str, shown: str) -> tuple[int, PlannedStudy]:
    """Return a study's id and the study as the ledger holds it.

    Args:
        storage: the database.
        name: the study's.
        shown: the ledger, for messages.

    Raises:
        StudyError: when there is none of this name, or it is not one of tune-vfl's.
    """
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError:
        raise StudyError(nowhere(storage, name, shown)) from None
    return study_id, read(name, storage.get_study_user_attrs(study_id))


def nowhere(storage: BaseStorage, name: str, shown: str, most: int = 20) -> str:
    """Say that there is no study of a name, where it was looked for, and what is there."""
    studies, known = names(storage), sorted([*names(storage), *campaigns(storage)])
    where = f"in the ledger {shown}"
    if not known:
        return f"no study {name!r} {where}, which is empty; TUNE_VFL_HOME, TUNE_VFL_STORAGE or --storage names another"
    more = f" and {len(known) - most} more, see 'tune-vfl studies'" if len(known) > most else ""
    several = f"{len(studies)} studies" if len(studies) != 1 else "one study"
    return (
        f"no study {name!r} {where}, which holds {several}.{did_you_mean(name, known)} Known: "
        f"{', '.join(known[:most])}{more}. TUNE_VFL_HOME, TUNE_VFL_STORAGE or --storage names another ledger."
    )


def names(storage: BaseStorage) -> list[str]:
    """Return the names of all studies that tune-vfl made, sorted; those of campaigns are not among them."""
    return sorted(s.study_name for s in storage.get_all_studies() if s.user_attrs.get("schema") == LEDGER_SCHEMA)


def read(name: str, attrs: Mapping[str, Any]) -> PlannedStudy:
    """Return a study from what a ledger holds of it.

    Raises:
        StudyError: when it is not one of tune-vfl's.
    """
    if attrs.get("schema") == CAMPAIGN_SCHEMA:
        raise StudyError(f"{name!r} is a campaign of the studies {', '.join(attrs['parts'])}: name one of them")
    if attrs.get("schema") != LEDGER_SCHEMA:
        raise StudyError(f"study {name!r}: expected a ledger of schema {LEDGER_SCHEMA}, got {attrs.get('schema')!r}")
    return PlannedStudy.read(attrs)

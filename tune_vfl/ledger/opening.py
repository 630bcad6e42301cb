"""Making, finding and listing the studies of a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_vfl.errors import StudyError, did_you_mean
from tune_vfl.ledger.measure import refuse_another
from tune_vfl.ledger.planned import PlannedStudy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.storages import BaseStorage

LEDGER_SCHEMA = "tune-vfl/ledger/1"


def create_or_open(storage: BaseStorage, study: PlannedStudy) -> tuple[int, PlannedStudy]:
    """Return a study's id and the study as the ledger holds it, written first if need be.

    A spec that asks for more trials than it did extends the study.

    Args:
        storage: the database.
        study: as :meth:`PlannedStudy.as_held` gives it.

    Raises:
        StudyError: when the name is taken by a study of another spec or of another measure.
    """
    from optuna.exceptions import DuplicatedStudyError
    from optuna.study import StudyDirection

    name = study.name
    try:
        study_id = storage.create_new_study([StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE], name)
    except DuplicatedStudyError:
        study_id = storage.get_study_id_from_name(name)
    attrs = storage.get_study_user_attrs(study_id)
    if "schema" not in attrs:
        # New, or its making was interrupted: the schema is written last.
        for key, value in {**study.dumped(), "trials": study.spec.budget.trials, "schema": LEDGER_SCHEMA}.items():
            storage.set_study_user_attr(study_id, key, value)
        return study_id, study
    held = read(name, attrs)
    refuse_another(name, held.measure)
    different = held.difference(study)
    if different:
        raise StudyError(
            f"study {name!r} exists with another spec:\n  " + "\n  ".join(different) + "\n"
            "Give this one another name (--set study=NAME). More trials are the same study, other fields are not."
        )
    asked = study.spec.budget.trials
    if asked > max(held.spec.budget.trials, int(attrs["trials"])):
        storage.set_study_user_attr(study_id, "trials", asked)
    return study_id, held


def find(storage: BaseStorage, name: str) -> tuple[int, PlannedStudy]:
    """Return a study's id and the study as the ledger holds it.

    Raises:
        StudyError: when there is none of this name, or it is not one of tune-vfl's.
    """
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError:
        known = names(storage)
        listed = f" Known: {', '.join(known)}." if known else " The ledger is empty; look at TUNE_VFL_HOME."
        raise StudyError(f"no study {name!r}.{did_you_mean(name, known)}{listed}") from None
    return study_id, read(name, storage.get_study_user_attrs(study_id))


def names(storage: BaseStorage) -> list[str]:
    """Return the names of all studies that tune-vfl made, sorted."""
    return sorted(s.study_name for s in storage.get_all_studies() if "schema" in s.user_attrs)


def read(name: str, attrs: Mapping[str, Any]) -> PlannedStudy:
    """Return a study from what a ledger holds of it.

    Raises:
        StudyError: when it is not one of tune-vfl's.
    """
    if attrs.get("schema") != LEDGER_SCHEMA:
        raise StudyError(f"study {name!r}: expected a ledger of schema {LEDGER_SCHEMA}, got {attrs.get('schema')!r}")
    return PlannedStudy.read(attrs)

"""The head of a study in the ledger: what it is of, and what makes two specs the same study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import StudyError, did_you_mean
from tune_vfl.spaces.space import Space
from tune_vfl.spec import StudySpec
from tune_vfl.spec.cell import Cell

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage

LEDGER_SCHEMA = "tune-vfl/ledger/1"

# These change how fast or where a study runs, never what a trial gives.
_FREE = ("resources", "storage", "tracking", "budget.minutes", "training")


@dataclass(frozen=True)
class Head:
    """What a study is of: the spec as given, the cell it was resolved to, and the space that is searched."""

    spec: StudySpec
    cell: Cell
    space: Space

    @classmethod
    def of(cls, spec: StudySpec, cell: Cell, space: Space) -> Head:
        """Return the head as the ledger would give it back."""
        return cls.read(cls(spec, cell, space).attrs())

    def attrs(self) -> dict[str, Any]:
        """Return it as plain data. Fields that the spec does not give stay out: the data set's recipe fills them."""
        return {
            "spec": self.spec.model_dump(mode="json", exclude_unset=True),
            "cell": self.cell.model_dump(mode="json"),
            "space": self.space.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    @classmethod
    def read(cls, attrs: Mapping[str, Any]) -> Head:
        """Read what :meth:`attrs` gave."""
        return cls(
            spec=StudySpec.model_validate(attrs["spec"]),
            cell=Cell.model_validate(attrs["cell"]),
            space=Space.model_validate(attrs["space"]),
        )

    def difference(self, other: Head) -> list[str]:
        """Return ``field: mine -> other's`` for everything that makes it another study."""
        mine, theirs = _flat(self._identity()), _flat(other._identity())
        fields = sorted({*mine, *theirs})
        changed = [f for f in fields if mine.get(f) != theirs.get(f)]
        return [f"{f}: {mine.get(f, 'not given')!r} -> {theirs.get(f, 'not given')!r}" for f in changed]

    def _identity(self) -> dict[str, Any]:
        spec = self.spec.model_dump(mode="json")
        # The training that counts is the resolved one; what a cell repeats of the spec need not be said twice.
        return {
            **{k: v for k, v in spec.items() if k not in {"dataset", "model", "attacks"}},
            "resolved": self.cell.model_dump(mode="json"),
            "searched": self.space.model_dump(mode="json", by_alias=True, exclude_none=True)["params"],
        }


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    if place in _FREE:
        return {}
    if isinstance(value, Mapping):
        parts = [_flat(v, f"{place}.{k}" if place else str(k)) for k, v in value.items()]
        return {k: v for part in parts for k, v in part.items()}
    return {place: value}


def cached(storage: RDBStorage) -> BaseStorage:
    """Return the storage behind Optuna's cache of finished trials."""
    from optuna.storages import get_storage

    return get_storage(storage)


def create_or_open(storage: BaseStorage, head: Head) -> tuple[int, Head]:
    """Return a study's id and head, made if need be.

    Raises:
        StudyError: when the name is taken by a study of another spec.
    """
    from optuna.exceptions import DuplicatedStudyError
    from optuna.study import StudyDirection

    name = head.spec.study
    try:
        study_id = storage.create_new_study([StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE], name)
    except DuplicatedStudyError:
        study_id = storage.get_study_id_from_name(name)
    attrs = storage.get_study_user_attrs(study_id)
    if "schema" not in attrs:
        # New, or its making was interrupted: the schema is written last.
        for key, value in {**head.attrs(), "trials": head.spec.budget.trials, "schema": LEDGER_SCHEMA}.items():
            storage.set_study_user_attr(study_id, key, value)
        return study_id, head
    held = _read(name, attrs)
    changed = held.difference(head)
    if changed:
        raise StudyError(
            f"study {name!r} exists with another spec:\n  " + "\n  ".join(changed) + "\n"
            "Give this one another name (--set study=NAME); for more trials of the same study use "
            f"'tune-vfl resume {name} --trials N'."
        )
    return study_id, held


def find(storage: BaseStorage, name: str) -> tuple[int, Head]:
    """Return a study's id and head.

    Raises:
        StudyError: when there is none of this name, or it is not one of tune-vfl's.
    """
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError:
        known = names(storage)
        listed = f" Known: {', '.join(known)}." if known else " The ledger is empty; look at TUNE_VFL_HOME."
        raise StudyError(f"no study {name!r}.{did_you_mean(name, known)}{listed}") from None
    return study_id, _read(name, storage.get_study_user_attrs(study_id))


def names(storage: BaseStorage) -> list[str]:
    """Return the names of all studies that tune-vfl made, sorted."""
    return sorted(s.study_name for s in storage.get_all_studies() if "schema" in s.user_attrs)


def _read(name: str, attrs: Mapping[str, Any]) -> Head:
    if attrs.get("schema") != LEDGER_SCHEMA:
        raise StudyError(f"study {name!r}: expected a ledger of schema {LEDGER_SCHEMA}, got {attrs.get('schema')!r}")
    return Head.read(attrs)

"""A campaign as it travels from one ledger to another: what was asked of all its studies together, and each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from tune_vfl.errors import ParcelError
from tune_vfl.ledger import opening
from tune_vfl.ledger.joint import JointConfirmation
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.parcel import Parcel, first_of, movable, refuse_other_schemas
from tune_vfl.machine.version import VERSION
from tune_vfl.spec import Strict, StudyName, explain
from tune_vfl.spec.constraints import Constraints

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.storages import BaseStorage

    from tune_vfl.ledger.database import LedgerStorage

CAMPAIGN_PARCEL_SCHEMA: Literal["tune-vfl/packed-campaign/1"] = "tune-vfl/packed-campaign/1"


class _Asked(BaseModel):
    """What is read of a campaign's spec; its studies hold the rest as it was resolved."""

    constraints: Constraints | None = None
    confidence: float = Field(0.9, gt=0.5, lt=1)


class PackedLeft(Strict):
    """What cannot be run, see :class:`tune_vfl.ledger.campaigns.Left`."""

    study: str
    attack: str | None = None
    problems: tuple[str, ...]


class PackedCampaign(Strict):
    """What a ledger holds of a campaign beside its studies, see :class:`tune_vfl.ledger.campaigns.CampaignRecord`.

    Attributes:
        program: the version that packed it.
        spec: as the user gave it at last, without where it is kept.
        parts: its studies' names, in the order of the spec.
    """

    schema_id: Literal["tune-vfl/packed-campaign/1"] = Field(CAMPAIGN_PARCEL_SCHEMA, alias="schema")
    program: str = VERSION
    name: StudyName
    spec: dict[str, Any]
    parts: tuple[str, ...] = Field(min_length=1)
    skipped: tuple[PackedLeft, ...] = ()
    trials: int = Field(ge=0)
    confirmation: JointConfirmation | None = None

    @model_validator(mode="after")
    def _hangs_together(self) -> PackedCampaign:
        _Asked.model_validate(self.spec)
        told = self.confirmation.points if self.confirmation else ()
        strangers = {p.study for p in told} - {*self.parts}
        if strangers:
            raise ValueError(f"expected studies among its parts, got {', '.join(sorted(strangers))}")
        if len(set(self.parts)) < len(self.parts) or not all(p.startswith(f"{self.name}-") for p in self.parts):
            raise ValueError(f"expected parts called {self.name}-..., each once, got {', '.join(self.parts)}")
        return self

    @classmethod
    def of(cls, name: str, attrs: Mapping[str, Any]) -> PackedCampaign:
        """Read it from what a ledger holds.

        Raises:
            ParcelError: when that is not what tune-vfl writes.
        """
        held = {key: attrs[key] for key in _KEYS if attrs.get(key) is not None}
        try:
            spec = movable(held.pop("spec"))
            return cls.model_validate({"schema": CAMPAIGN_PARCEL_SCHEMA, "name": name, "spec": spec, **held})
        except (ValidationError, KeyError, TypeError, AttributeError) as error:
            problems = explain(error) if isinstance(error, ValidationError) else [f"{type(error).__name__}: {error}"]
            raise ParcelError(f"campaign {name!r} cannot be packed: {first_of(problems)}") from error

    def attrs(self) -> dict[str, Any]:
        """Return what a ledger is to hold of it."""
        plain = self.model_dump(mode="json", by_alias=True, include=set(_KEYS))
        return {key: value for key, value in plain.items() if value is not None}

    def difference(self, earlier: PackedCampaign) -> str:
        """Return why this is not the same campaign later on; empty where it is, or where both are the same."""
        lacks = [name for name in earlier.parts if name not in self.parts]
        if lacks:
            return f"it has no study {', '.join(lacks)}"
        if earlier.trials > self.trials:
            return f"trials: {earlier.trials} -> {self.trials}"
        lost = earlier.confirmation and not self.confirmation
        return "what belongs to the whole campaign was measured otherwise" if lost else ""

    def told_otherwise(self, other: PackedCampaign) -> bool:
        """Say whether anything of two differs, such as constraints."""
        return self.attrs() != other.attrs()

    def named(self, name: str, new: Callable[[str], str]) -> PackedCampaign:
        """Return it under another name; ``new`` gives those of its studies."""
        answer = self.confirmation
        if answer is not None:
            knees = {d: p.model_copy(update={"study": new(p.study)}) for d, p in answer.knee.items()}
            points = tuple(p.model_copy(update={"study": new(p.study)}) for p in answer.points)
            lines = tuple(v.model_copy(update={"studies": tuple(map(new, v.studies))}) for v in answer.lines)
            answer = answer.model_copy(update={"name": name, "points": points, "lines": lines, "knee": knees})
        return self.model_copy(
            update={
                "name": name,
                "spec": {**self.spec, "study": name},
                "parts": tuple(map(new, self.parts)),
                "skipped": tuple(s.model_copy(update={"study": new(s.study)}) for s in self.skipped),
                "confirmation": answer,
            }
        )


_KEYS = ("spec", "parts", "skipped", "trials", "confirmation")


@dataclass(frozen=True)
class CampaignParcel:
    """A campaign, packed.

    Attributes:
        head: everything but its studies.
        studies: in the order of its parts.
    """

    head: PackedCampaign
    studies: tuple[Parcel, ...]

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.head.name

    @classmethod
    def of(cls, name: str, place: LedgerStorage, opened: BaseStorage) -> CampaignParcel:
        """Pack a campaign of a ledger that is open.

        Raises:
            ParcelError: when it holds what tune-vfl has not written.
            StudyError: when a study of it is missing.
        """
        head = PackedCampaign.of(name, opened.get_study_user_attrs(opened.get_study_id_from_name(name)))
        parts = (Ledger(place, opened, *opening.find(opened, part, place.shown), None) for part in head.parts)
        return cls(head, tuple(Parcel.of(part) for part in parts))

    @classmethod
    def read(cls, head: Any, studies: Sequence[Parcel], where: str) -> CampaignParcel:
        """Check what a file holds beside its studies, field by field.

        Args:
            head: plain data, as :meth:`plain` gives them.
            studies: read already.
            where: the file, for messages.

        Raises:
            ParcelError: for everything that is not as expected.
        """
        refuse_other_schemas(head, CAMPAIGN_PARCEL_SCHEMA, f"{where}: expected a packed campaign")
        head = {key: value for key, value in head.items() if key != "costs"}  # earlier packs have it, always empty
        try:
            packed = PackedCampaign.model_validate(head)
        except ValidationError as error:
            raise ParcelError(f"{where}: is not a packed campaign: {first_of(explain(error))}") from error
        names = tuple(study.name for study in studies)
        if names != packed.parts:
            raise ParcelError(
                f"{where}: is not a packed campaign: expected the studies {', '.join(packed.parts)}, got "
                f"{', '.join(names)}"
            )
        return cls(packed, tuple(studies))

    def plain(self) -> dict[str, Any]:
        """Return its head as plain data, which :meth:`read` takes back."""
        return self.head.model_dump(mode="json", by_alias=True, exclude_none=True)

    def named(self, name: str) -> CampaignParcel:
        """Return the campaign under another name, its studies called after it.

        Raises:
            SpecError: for a name that no campaign can have.
        """

        def new(study: str) -> str:
            return f"{name}-{study.removeprefix(f'{self.name}-')}"

        studies = tuple(study.named(new(study.name)) for study in self.studies)
        return CampaignParcel(self.head.named(name, new), studies)


Packed = Parcel | CampaignParcel
"""What one file holds: a study or a campaign."""

"""Packed studies and campaigns: their rows of the ledger's tables, validated field by field.

The places ``storage`` and ``tracking`` and the processes are left out. It holds no rows of data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, FiniteFloat, ValidationError, model_validator

from tune_vfl.errors import ParcelError, SpecError, shortened
from tune_vfl.evaluation.coverage import Coverage
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.records.campaigns import Skipped
from tune_vfl.records.confirmations import UNDEFENDED, Confirmation, SeedRecord
from tune_vfl.records.joint_confirmation import JointConfirmation
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import END_OF_TIME
from tune_vfl.spec import Strict, StudyName, explain
from tune_vfl.spec.cell import References
from tune_vfl.spec.constraints import Constraints

PACKED_SCHEMA = "tune-vfl/packed/1"

Count = Field(ge=0, lt=2**31)
Moment = Annotated[FiniteFloat, Field(ge=0, lt=END_OF_TIME)]
"""Seconds since 1970, up to the year 6325: every calendar has such a moment, in every time zone."""


class _Asked(BaseModel):
    """The fields that are read of a campaign's spec."""

    constraints: Constraints | None = None
    confidence: float = Field(0.9, gt=0.5, lt=1)


class PackedCampaign(Strict):
    """A row of ``campaigns``."""

    name: StudyName
    spec: dict[str, Any]
    skipped: tuple[Skipped, ...] = ()
    trials: int = Count
    confirmation: JointConfirmation | None = None

    @model_validator(mode="after")
    def _can_be_read(self) -> PackedCampaign:
        with _in_words():
            _Asked.model_validate(self.spec)
        return self


class PackedStudy(Strict):
    """A row of ``studies``."""

    name: StudyName
    campaign: str = ""
    place: int = Count
    spec: dict[str, Any]
    cell: dict[str, Any]
    space: dict[str, Any]
    measure: int = Field(ge=1, lt=2**31)
    data: str
    coverage: Coverage | None = None
    trials: int = Field(ge=1, lt=2**31)
    reference_scores: References | None = None
    reference_point: tuple[FiniteFloat, FiniteFloat] | None = None
    baseline: Outcome | None = None
    cost: FiniteFloat | None = Field(None, gt=0)
    confirmation: Confirmation | None = None

    @cached_property
    def planned(self) -> PlannedStudy:
        """Its plan."""
        return PlannedStudy.read(self.model_dump(mode="json"))

    @model_validator(mode="after")
    def _can_be_read(self) -> PackedStudy:
        with _in_words():
            if self.planned.name != self.name:
                raise ValueError(f"expected a spec of study {self.name!r}, got {self.planned.name!r}")
        return self


class PackedTrial(Strict):
    """A row of ``trials``; its outcome and objectives are those of the result."""

    study: str
    number: int = Count
    params: dict[str, bool | int | float | str | None]
    pack: str = ""
    asked: Moment
    retry_of: int | None = None
    sampler: dict[str, Any] = Field(default_factory=dict)
    result: Outcome | None = None
    lost: Literal["driver", "worker", "node", "memory"] | None = None
    finished: Moment | None = None
    tuned: TunedAttack | None = None

    @model_validator(mode="after")
    def _hangs_together(self) -> PackedTrial:
        if (self.result is None) != (self.finished is None):
            raise ValueError("a trial has a result where it is finished, and only there")
        if self.retry_of is not None and not 0 <= self.retry_of < self.number:
            raise ValueError("a trial repeats an earlier one")
        return self


class PackedSeed(Strict):
    """A row of ``confirmations``."""

    study: str
    number: int = Field(ge=UNDEFENDED)
    seed: int = Count
    record: SeedRecord


class Packed(Strict):
    """A campaign with all its studies, or a single study.

    Attributes:
        campaigns: one, or none for a single study.
        studies: in the order of the campaign.
        trials: of all of them, study by study, by number from 0 without a gap.
        confirmations: their records on fresh seeds.
    """

    campaigns: tuple[PackedCampaign, ...] = Field((), max_length=1)
    studies: tuple[PackedStudy, ...] = Field(min_length=1)
    trials: tuple[PackedTrial, ...] = ()
    confirmations: tuple[PackedSeed, ...] = ()

    @property
    def campaign(self) -> PackedCampaign | None:
        """The campaign; None for a single study."""
        return self.campaigns[0] if self.campaigns else None

    @property
    def name(self) -> str:
        """The name of the campaign, or of the single study."""
        return self.campaign.name if self.campaign else self.studies[0].name

    @classmethod
    def checked(cls, rows: Mapping[str, Any], where: str) -> Packed:
        """Check rows, by table.

        Args:
            rows: plain data.
            where: begins the message.

        Raises:
            ParcelError: for everything that is not as expected.
        """
        try:
            return cls.model_validate(rows)
        except ValidationError as error:
            problems = shortened([problem[:300] for problem in explain(error)], 3, "; ")
            raise ParcelError(f"{where}: {problems}") from error

    @model_validator(mode="after")
    def _hangs_together(self) -> Packed:
        names, campaign = [study.name for study in self.studies], self.campaign
        of = campaign.name if campaign else ""
        if any((s.campaign, s.place) != (of, place) for place, s in enumerate(self.studies)):
            raise ValueError(f"expected the studies of {of or 'no campaign'}, in order")
        if campaign is None and len(names) > 1:
            raise ValueError(f"expected one study without a campaign, got {', '.join(names)}")
        if campaign and (len({*names}) < len(names) or not all(n.startswith(f"{of}-") for n in names)):
            raise ValueError(f"expected studies called {of}-..., each once, got {', '.join(names)}")
        answered = campaign.confirmation.points if campaign and campaign.confirmation else ()
        of_rows = [
            *(t.study for t in self.trials),
            *(s.study for s in self.confirmations),
            *(p.study for p in answered),
        ]
        strangers = {*of_rows} - {*names}
        if strangers:
            raise ValueError(f"expected rows of its studies, got some of {', '.join(sorted(strangers))}")
        for study in self.studies:
            self._refuse_strange_rows(study)
        return self

    def _refuse_strange_rows(self, study: PackedStudy) -> None:
        rows = [trial for trial in self.trials if trial.study == study.name]
        if [trial.number for trial in rows] != list(range(len(rows))):
            raise ValueError(f"study {study.name!r}: expected trials 0 to {len(rows) - 1}, each once")
        for trial in rows:
            if not study.planned.space.holds(trial.params):
                raise ValueError(
                    f"study {study.name!r}: trial {trial.number} does not fit what the study searches: {trial.params}"
                )
        places = [(row.number, row.seed) for row in self.confirmations if row.study == study.name]
        if len({*places}) < len(places) or any(number >= len(rows) for number, _ in places):
            raise ValueError(f"study {study.name!r}: expected confirmations of its trials, each seed once")

    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows as plain data, by table, which :meth:`checked` takes back."""
        plain: dict[str, list[dict[str, Any]]] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return plain

    def named(self, name: str) -> Packed:
        """Return it under another name, a campaign's studies called after it.

        Raises:
            ParcelError: for a name that nothing can have.
        """
        before, rows = self.name, self.plain()

        def new(study: str) -> str:
            return f"{name}-{study.removeprefix(f'{before}-')}" if self.campaign else name

        for campaign in rows["campaigns"]:
            campaign["name"] = campaign["spec"]["study"] = name
            for skip in campaign["skipped"]:
                skip["study"] = new(skip["study"])
            _rename_answer(campaign, new)
        for study in rows["studies"]:
            study["campaign"] = name if self.campaign else ""
            study["name"] = study["spec"]["study"] = new(study["name"])
            _rename_answer(study, new)
        for row in (*rows["trials"], *rows["confirmations"]):
            row["study"] = new(row["study"])
        return self.checked(rows, f"{before!r} cannot be called {name!r}")

    def difference(self, other: Packed) -> str:
        """Return the first difference to another one of the same name; empty where there is none."""
        mine, theirs = ({study.name: study for study in packed.studies} for packed in (self, other))
        if mine.keys() != theirs.keys():
            return f"the studies {', '.join(sorted(mine))} -> {', '.join(sorted(theirs))}"
        for name, study in mine.items():
            if different := study.planned.difference(theirs[name].planned):
                return f"study {name!r}: {different[0]}"
            own, others = ([t for t in packed.trials if t.study == name] for packed in (self, other))
            if len(own) != len(others):
                return f"study {name!r}: {len(own)} trials -> {len(others)}"
            if strange := [a.number for a, b in zip(own, others, strict=True) if a != b]:
                return f"study {name!r}: trial {strange[0]} ended otherwise"
        return "" if self == other else "what belongs to the whole was measured or asked otherwise"


def _rename_answer(row: dict[str, Any], new: Callable[[str], str]) -> None:
    """Rename the studies in a campaign's or a study's confirmation; the row has its new name."""
    answer = row.get("confirmation")
    if answer is None:
        return
    answer["name"] = row["name"]
    knees = answer.get("knee")  # a study's is a number, or missing
    for point in (*answer["points"], *(knees.values() if isinstance(knees, dict) else ())):
        point["study"] = new(point["study"])
    for line in answer["lines"]:
        if "studies" in line:
            line["studies"] = [new(study) for study in line["studies"]]


@contextmanager
def _in_words() -> Iterator[None]:
    """Raise the first problems of nested data as one ValueError, which a validator may raise."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(shortened(explain(error), 3, "; ")) from error
    except (SpecError, KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error

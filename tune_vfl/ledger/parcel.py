"""A study as it travels from one ledger to another: what it is, its trials and its confirmation; no rows of data.

Where it was kept and recorded (``storage``, ``tracking``) and which processes ran it stay behind: they mean nothing
elsewhere. What a sampler remembers of a study is made anew from its trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AwareDatetime, Field, FiniteFloat, ValidationError, model_validator

from tune_vfl.errors import ParcelError, SpecError
from tune_vfl.ledger.confirmations import Confirmation, SeedRecord
from tune_vfl.ledger.ledger import Ledger, Lost
from tune_vfl.ledger.planned import PlannedStudy
from tune_vfl.machine.version import VERSION
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.spec import Strict, explain, parse
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

PARCEL_SCHEMA: Literal["tune-vfl/packed-study/1"] = "tune-vfl/packed-study/1"

# Of a spec, these say where a study is kept, and not what it is.
_STAYS_BEHIND = ("storage", "tracking")


class PackedTrial(Strict):
    """One trial, whatever its state; fields as the ledger has them.

    Attributes:
        params: the searched parameters, lists as texts.
        started, finished: UTC; ``asked``: in seconds since 1970.
        sampler: what the sampler remembers of it.
    """

    number: int = Field(ge=0)
    state: Literal["RUNNING", "WAITING", "COMPLETE", "FAIL"]
    params: dict[str, bool | int | float | str | None]
    started: AwareDatetime | None = None
    finished: AwareDatetime | None = None
    pack: str = ""
    retry_of: int | None = None
    asked: float | None = None
    lost: Lost | None = None
    outcome: Outcome | None = None
    sampler: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete_is_ok(self) -> PackedTrial:
        if (self.state == "COMPLETE") != (self.outcome is not None and self.outcome.outcome == "ok") and self.ended:
            raise ValueError("a trial is COMPLETE where its outcome is ok, and only there")
        if self.retry_of is not None and not 0 <= self.retry_of < self.number:
            raise ValueError("a trial repeats an earlier one")
        return self

    @property
    def ended(self) -> bool:
        """Whether it is finished."""
        return self.state in ("COMPLETE", "FAIL")

    def same_end(self, other: PackedTrial) -> bool:
        """Say whether two finished trials are one and the same."""
        mine, theirs = (
            t.model_dump(include={"number", "state", "params", "retry_of", "outcome"}) for t in (self, other)
        )
        return mine == theirs


class PackedStudy(Strict):
    """Everything of a study but its trials; fields as :class:`tune_vfl.ledger.ledger.Ledger` has them.

    Attributes:
        program: the version that packed it.
        study: as :meth:`PlannedStudy.dumped` gives it, the fingerprint of the data among it.
        confirmed: trial, seed and what came of them.
    """

    schema_id: Literal["tune-vfl/packed-study/1"] = Field(PARCEL_SCHEMA, alias="schema")
    program: str = VERSION
    study: dict[str, Any]
    budget: int = Field(ge=1)
    reference_point: tuple[float, float] | None = None
    references: References | None = None
    baseline: Outcome | None = None
    confirmed: tuple[tuple[int, int, SeedRecord], ...] = ()
    tuned: dict[int, TunedAttack] = Field(default_factory=dict)
    answer: Confirmation | None = None
    cost: FiniteFloat | None = Field(None, gt=0)

    def continues(self, earlier: PackedStudy) -> bool:
        """Say whether everything that ``earlier`` holds is here too, or has gone on from there."""
        kept = {(number, seed): record for number, seed, record in self.confirmed}
        measured_again = earlier.baseline is None or earlier.baseline.outcome != "ok"
        return (
            earlier.budget <= self.budget
            and earlier.reference_point in (None, self.reference_point)
            and earlier.references in (None, self.references)
            and (measured_again or earlier.baseline == self.baseline)
            and all(kept.get((number, seed)) == record for number, seed, record in earlier.confirmed)
            and set(earlier.tuned) <= set(self.tuned)
            and (earlier.answer is None or self.answer is not None)
            and (earlier.cost is None or self.cost is not None)
        )


@dataclass(frozen=True)
class Parcel:
    """A study, packed.

    Attributes:
        head: everything but the trials.
        planned: what it is of.
        trials: all of them, by number, from 0 without a gap.
    """

    head: PackedStudy
    planned: PlannedStudy
    trials: tuple[PackedTrial, ...]

    @property
    def name(self) -> str:
        """The study's name."""
        return self.planned.name

    @property
    def studies(self) -> tuple[Parcel, ...]:
        """Itself: a lone study is all that is packed."""
        return (self,)

    @classmethod
    def of(cls, ledger: Ledger) -> Parcel:
        """Pack the study of a ledger; a part of a campaign becomes a lone study.

        Raises:
            ParcelError: when it holds what tune-vfl has not written.
        """
        study = ledger.study.dumped()
        study["spec"] = movable(study["spec"])
        study["campaign"] = ""
        kept = ledger.confirmations
        where = f"study {ledger.study.name!r} cannot be packed"
        try:
            head = PackedStudy(
                schema=PARCEL_SCHEMA,
                study=study,
                budget=ledger.budget,
                reference_point=ledger.reference_point,
                references=ledger.references,
                baseline=ledger.baseline,
                confirmed=tuple((*place, record) for place, record in sorted(kept.records().items())),
                tuned=kept.tuned(),
                answer=kept.answer,
                cost=ledger.cost,
            )
            return cls(head, PlannedStudy.read(study), tuple(_packed(t) for t in ledger.trials()))
        except ValidationError as error:
            raise ParcelError(f"{where}: {first_of(explain(error))}") from error

    @classmethod
    def read(cls, head: Any, trials: list[Any], where: str) -> Parcel:
        """Check what a file holds, field by field.

        Args:
            head: plain data, as :meth:`plain` gives them.
            trials: plain data.
            where: the file, for messages.

        Raises:
            ParcelError: for everything that is not as expected.
        """
        refuse_other_schemas(head, PARCEL_SCHEMA, f"{where}: expected a packed study")
        try:
            packed = PackedStudy.model_validate(head)
            planned = replace(PlannedStudy.read(packed.study), campaign="")
            rows = tuple(PackedTrial.model_validate(t) for t in trials)
        except (ValidationError, SpecError, KeyError, TypeError, ValueError) as error:
            problems = explain(error) if isinstance(error, ValidationError) else [f"{type(error).__name__}: {error}"]
            raise ParcelError(f"{where}: is not a packed study: {first_of(problems)}") from error
        if [t.number for t in rows] != list(range(len(rows))):
            raise ParcelError(f"{where}: is not a packed study: expected trials 0 to {len(rows) - 1}, each once")
        return cls(packed, planned, rows)

    def plain(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return it as plain data, head and trials, which :meth:`read` takes back."""
        head = self.head.model_dump(mode="json", by_alias=True, exclude_none=True)
        return head, [t.model_dump(mode="json", exclude_defaults=True) for t in self.trials]

    def named(self, name: str) -> Parcel:
        """Return the study under another name.

        Raises:
            SpecError: for a name that no study can have.
        """
        raw = {**self.head.study, "spec": {**self.head.study["spec"], "study": name}}
        parse(raw["spec"])
        answer = self.head.answer
        if answer is not None:
            points = tuple(p.model_copy(update={"study": name}) for p in answer.points)
            answer = answer.model_copy(update={"name": name, "points": points})
        head = self.head.model_copy(update={"study": raw, "answer": answer})
        return Parcel(head, replace(PlannedStudy.read(raw), campaign=""), self.trials)

    def told_otherwise(self, other: Parcel) -> bool:
        """Say whether two that hold the same trials differ in what has no earlier and later, such as constraints."""
        return (self.planned.spec, self.head.answer) != (other.planned.spec, other.head.answer)

    def difference(self, earlier: Parcel) -> str:
        """Return why this is not the same study later on; empty where it is, or where both are the same.

        Args:
            earlier: of the same name.
        """
        if different := earlier.planned.difference(self.planned):
            return different[0]
        if earlier.planned.measure != self.planned.measure:
            return f"measure: {earlier.planned.measure} -> {self.planned.measure}"
        for before in earlier.trials:
            now = self.trials[before.number] if before.number < len(self.trials) else None
            if now is None:
                return f"trial {before.number} is missing"
            if before.ended and not (now.ended and now.same_end(before)):
                return f"trial {before.number} ended otherwise"
        return "" if self.head.continues(earlier.head) else "what belongs to the whole study was measured otherwise"


def refuse_other_schemas(head: object, schema: str, expected: str) -> None:
    """Refuse what says of itself that it is something else, or nothing.

    Args:
        head: what was read.
        schema: what it should say.
        expected: begins the message: where it was read, and what it should be.

    Raises:
        ParcelError: naming both schemas, and the version that wrote it.
    """
    told = head if isinstance(head, Mapping) else {}
    if told.get("schema") != schema:
        raise ParcelError(
            f"{expected} of schema {schema}, got {told.get('schema')!r} (written by tune-vfl "
            f"{told.get('program', 'unknown')}; this is {VERSION}); a later one is read by a later tune-vfl"
        )


def _packed(trial: FrozenTrial) -> PackedTrial:
    marks = {key: value for key, value in trial.user_attrs.items() if key != "owner"}
    return PackedTrial.model_validate(
        {
            "number": trial.number,
            "state": trial.state.name,
            "params": trial.params,
            "started": _utc(trial.datetime_start),
            "finished": _utc(trial.datetime_complete),
            "sampler": trial.system_attrs,
            **marks,
        }
    )


def _utc(moment: datetime | None) -> datetime | None:
    # Optuna writes local time without a zone.
    return None if moment is None else moment.astimezone(UTC)


def movable(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw spec without what says where a study is kept."""
    return {key: value for key, value in spec.items() if key not in _STAYS_BEHIND}


def first_of(problems: list[str], most: int = 3) -> str:
    """Return the first of some problems as one line, and how many there are beside them."""
    more = f" (and {len(problems) - most} more)" if len(problems) > most else ""
    return "; ".join(p[:300] for p in problems[:most]) + more

"""Packed studies and campaigns: their rows of the ledger's tables, which are checked against each other.

The places ``storage`` and ``tracking`` and the processes are left out. It holds no rows of data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from tune_vfl.errors import ParcelError, SpecError, shortened
from tune_vfl.records.rows import CampaignRow, SeedRow, StudyRow, TrialRow
from tune_vfl.spec import Strict, explain
from tune_vfl.spec.constraints import Constraints

PACKED_SCHEMA = "tune-vfl/packed/1"


class _Asked(BaseModel):
    """The fields that are read of a campaign's spec."""

    constraints: Constraints | None = None
    confidence: float = Field(0.9, gt=0.5, lt=1)


class Packed(Strict):
    """A campaign with all its studies, or a single study.

    Attributes:
        campaigns: one, or none for a single study.
        studies: in the order of the campaign.
        trials: of all of them, study by study, by number from 0 without a gap.
        confirmations: their records on fresh seeds.
    """

    campaigns: tuple[CampaignRow, ...] = Field((), max_length=1)
    studies: tuple[StudyRow, ...] = Field(min_length=1)
    trials: tuple[TrialRow, ...] = ()
    confirmations: tuple[SeedRow, ...] = ()

    @property
    def campaign(self) -> CampaignRow | None:
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
        with _in_words():
            _Asked.model_validate(campaign.spec if campaign else {})
        if any((s.campaign, s.place) != (of, place) for place, s in enumerate(self.studies)):
            raise ValueError(f"expected the studies of {of or 'no campaign'}, in order")
        if campaign is None and len(names) > 1:
            raise ValueError(f"expected one study without a campaign, got {', '.join(names)}")
        if campaign and (len({*names}) < len(names) or not all(n.startswith(f"{of}-") for n in names)):
            raise ValueError(f"expected studies called {of}-..., each once, got {', '.join(names)}")
        joint = campaign.confirmation if campaign else None
        if (joint and not joint.joint) or any(s.confirmation and s.confirmation.joint for s in self.studies):
            raise ValueError("expected with each study the answer of a study, with a campaign that of all of them")
        of_rows = [
            *(t.study for t in self.trials),
            *(s.study for s in self.confirmations),
            *(p.study for p in (joint.points if joint else ())),
        ]
        strangers = {*of_rows} - {*names}
        if strangers:
            raise ValueError(f"expected rows of its studies, got some of {', '.join(sorted(strangers))}")
        for study in self.studies:
            self._refuse_strange_rows(study)
        return self

    def _refuse_strange_rows(self, study: StudyRow) -> None:
        with _in_words():
            if study.planned.name != study.name:
                raise ValueError(f"expected a spec of study {study.name!r}, got {study.planned.name!r}")
        rows = [trial for trial in self.trials if trial.study == study.name]
        if [trial.number for trial in rows] != list(range(len(rows))):
            raise ValueError(f"study {study.name!r}: expected trials 0 to {len(rows) - 1}, each once")
        for trial in rows:
            if (trial.result is None) != (trial.finished is None):
                says = "has a result where it is finished, and only there"
                raise ValueError(f"study {study.name!r}: trial {trial.number} {says}")
            if trial.retry_of is not None and not 0 <= trial.retry_of < trial.number:
                raise ValueError(f"study {study.name!r}: trial {trial.number} repeats {trial.retry_of}, no earlier one")
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

"""Rows of a ledger's tables, a class each: tables take their columns from here, and packed files their lines.

A new field is a new column: it needs a step in :mod:`tune_vfl.ledger.schema`, and a default, by which packed files of
earlier releases are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from tune_vfl.evaluation.coverage import Coverage
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.records.answers import Confirmation
from tune_vfl.records.campaigns import Skipped
from tune_vfl.records.confirmations import UNDEFENDED, SeedRecord
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import END_OF_TIME, StudyRecord, TrialRecord
from tune_vfl.spec import Strict, StudyName
from tune_vfl.spec.cell import References, from_text

Count = Field(ge=0, lt=2**31)
Moment = Annotated[FiniteFloat, Field(ge=0, lt=END_OF_TIME)]
"""Seconds since 1970, up to the year 6325: every calendar has such a moment, in every time zone."""

Lost = Literal["driver", "worker", "node", "memory"]
"""What was lost with a trial: the driver that asked it; its worker, which it may have killed itself; the machine that
it ran on; or a pack that did not fit into memory as a whole."""


class CampaignRow(Strict):
    """A campaign: what its studies share.

    Attributes:
        name: its name.
        spec: the user's last one.
        skipped: the impossible combinations of the spec.
        trials: the budget of all its studies.
        confirmation: the joint answer of its last confirmation.
    """

    name: StudyName
    spec: dict[str, Any]
    skipped: tuple[Skipped, ...] = ()
    trials: int = Count
    confirmation: Confirmation | None = None


class StudyRow(Strict):
    """A study: its plan, and what was measured of it as a whole.

    Attributes:
        name: its name.
        campaign: its campaign; empty for a study of none.
        place: in the order of the campaign.
        spec, cell, space, measure, data, coverage: see :class:`tune_vfl.records.plans.PlannedStudy`.
        trials: the budget of finished trials.
        reference_scores: of its attacks.
        reference_point: ``(utility, leakage)`` for the hypervolume.
        baseline: the undefended model's outcome.
        cost: the ratio of the training's CPU time to the undefended one's.
        confirmation: the answer of its last confirmation.
    """

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
        return PlannedStudy.read(dict(self))

    def record(
        self, plan: PlannedStudy, trials: Iterable[TrialRecord], *, running: int = 0, waiting: int = 0
    ) -> StudyRecord:
        """Return the study's record.

        Args:
            plan: its plan, which is read once.
            trials: the finished ones, by number.
            running: the number of those that run.
            waiting: the number of those that the budget still has.
        """
        record = StudyRecord(
            **vars(plan),
            baseline=self.baseline,
            reference_point=self.reference_point or (0.0, 1.0),
            trials=tuple(trials),
            running=running,
            alone=tuple(self.reference_scores.alone) if self.reference_scores else (),
            confirmation=self.confirmation,
            cost=self.cost,
        )
        return record.owing(waiting)


class TrialRow(Strict):
    """A trial, running or finished.

    Attributes:
        study: its study.
        number: its number in the study.
        params: the searched parameters, lists as texts.
        pack: the pack that it runs in.
        asked: when it was created.
        retry_of: the lost trial that it repeats.
        sampler: the sampler's own data about it.
        result: its outcome; None while it runs.
        lost: the cause of a preemption.
        finished: when it ended.
        tuned: the best attacker that was tuned against it.
    """

    study: str
    number: int = Count
    params: dict[str, bool | int | float | str | None]
    pack: str = ""
    asked: Moment
    retry_of: int | None = None
    sampler: dict[str, Any] = Field(default_factory=dict)
    result: Outcome | None = None
    lost: Lost | None = None
    finished: Moment | None = None
    tuned: TunedAttack | None = None

    @property
    def outcome(self) -> str | None:
        """The kind of its outcome, such as ``ok``; None while it runs."""
        return None if self.result is None else self.result.outcome

    @property
    def objectives(self) -> tuple[float, float] | None:
        """``(utility, leakage)``; None of an outcome that is not ok."""
        return self.result.objectives if self.result is not None and self.result.outcome == "ok" else None

    def ended(self, result: Outcome, finished: float) -> TrialRow:
        """Return the trial with its end."""
        return self.model_copy(update={"result": result, "finished": finished})

    def record(self, fixed: Mapping[str, Any]) -> TrialRecord:
        """Return the record of a finished trial.

        Args:
            fixed: the parameters that the search does not touch.
        """
        assert self.result is not None  # noqa: S101 - it is finished
        return TrialRecord(
            number=self.number,
            params={**fixed, **{name: from_text(value) for name, value in self.params.items()}},
            outcome=self.result,
            started=datetime.fromtimestamp(self.asked, UTC),
            finished=datetime.fromtimestamp(self.finished or 0.0, UTC),
            retry_of=self.retry_of,
        )


class SeedRow(Strict):
    """A setting, or the undefended model, with one seed of a confirmation.

    Attributes:
        study: its study.
        number: of the trial; -1 is the undefended model.
        seed: the fresh seed.
        record: what was measured.
    """

    study: str
    number: int = Field(ge=UNDEFENDED)
    seed: int = Count
    record: SeedRecord

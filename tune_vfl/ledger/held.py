"""A study as a ledger holds it: what can be read of it, whoever opened it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger.confirmations import answer_in
from tune_vfl.ledger.records import StudyRecord, TrialRecord
from tune_vfl.ledger.trials import is_finished, is_running, to_record
from tune_vfl.outcome import Outcome
from tune_vfl.samplers.base import listed_points
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.ledger.planned import PlannedStudy
    from tune_vfl.ledger.rows import TrialRows
    from tune_vfl.ledger.trials import LedgerTrial
    from tune_vfl.spaces.space import Space
    from tune_vfl.spec import StudySpec
    from tune_vfl.spec.cell import Cell


class HeldStudy(ABC):
    """One study of a ledger.

    Args:
        study: what it is of, as the ledger holds it.
        rows: its trials there.
    """

    def __init__(self, study: PlannedStudy, rows: TrialRows) -> None:
        self.study = study
        self._rows = rows
        self._records: dict[int, TrialRecord] = {}

    @abstractmethod
    def trials(self) -> Sequence[LedgerTrial]:
        """Return all trials, by number; not copies."""

    @abstractmethod
    def _attrs(self) -> Mapping[str, Any]:
        """Return what the ledger holds of the study itself, as it stands now."""

    @property
    def spec(self) -> StudySpec:
        """The spec as the user gave it."""
        return self.study.spec

    @property
    def cell(self) -> Cell:
        """The spec as it was resolved."""
        return self.study.cell

    @property
    def space(self) -> Space:
        """What is searched, as it was when the study began."""
        return self.study.space

    @property
    def budget(self) -> int:
        """How many finished trials the study is to have."""
        return self._budget_in(self._attrs())

    @property
    def references(self) -> References | None:
        """What attacks are compared with; None before it was measured."""
        return _references_in(self._attrs())

    @property
    def reference_point(self) -> tuple[float, float] | None:
        """``(utility, leakage)`` for the hypervolume; None before it was measured."""
        return _reference_point_in(self._attrs())

    @property
    def baseline(self) -> Outcome | None:
        """The undefended model's outcome; None before it was measured."""
        return _baseline_in(self._attrs())

    @property
    def cost(self) -> float | None:
        """The training's CPU over the undefended one's; None before it was measured."""
        cost: float | None = self._attrs().get("cost")
        return cost

    def record(self) -> StudyRecord:
        """Return the study as it stands."""
        held, attrs = self._rows.read(), self._attrs()
        records = tuple(self._record(t) for t in held if is_finished(t))
        running = sum(map(is_running, held))
        counted = sum(r.outcome.outcome != "preempted" for r in records)
        references = _references_in(attrs)
        return StudyRecord(
            spec=self.spec,
            cell=self.cell,
            baseline=_baseline_in(attrs),
            reference_point=_reference_point_in(attrs) or (0.0, 1.0),
            trials=records,
            running=running,
            waiting=max(0, int(min(self._budget_in(attrs), self.most())) - counted - running),
            measure=self.study.measure,
            confirmation=answer_in(attrs),
            alone=tuple(references.alone) if references else (),
            cost=attrs.get("cost"),
            coverage=self.study.coverage,
        )

    def most(self) -> float:
        """Return how many different points there are to try; infinite with a float range."""
        listed = listed_points(self.spec.sampler.name, self.space, self.spec.budget.trials)
        return self.space.size if listed is None else len(listed)

    def _record(self, trial: LedgerTrial) -> TrialRecord:
        if trial.number not in self._records:
            self._records[trial.number] = to_record(trial, self.cell.fixed)
        return self._records[trial.number]

    def _budget_in(self, attrs: Mapping[str, Any]) -> int:
        return int(attrs.get("trials", self.spec.budget.trials))


def _references_in(attrs: Mapping[str, Any]) -> References | None:
    raw = attrs.get("references")
    return None if raw is None else References.model_validate(raw)


def _reference_point_in(attrs: Mapping[str, Any]) -> tuple[float, float] | None:
    raw = attrs.get("reference_point")
    return None if raw is None else (float(raw[0]), float(raw[1]))


def _baseline_in(attrs: Mapping[str, Any]) -> Outcome | None:
    raw = attrs.get("baseline")
    return None if raw is None else Outcome.model_validate(raw)

"""Plans and records of campaigns: the studies of one spec, with shared trials and constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import StudyRecord

if TYPE_CHECKING:
    from tune_vfl.records.joint_confirmation import JointConfirmation


@dataclass(frozen=True)
class Skipped:
    """An impossible combination of a spec: a whole study, or one attack of a study that runs without it.

    Attributes:
        study: its name; ``attack``: None for the whole study.
        problems: why, a sentence each.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    study: str
    attack: str | None = None
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = self.study if self.attack is None else f"attack {self.attack} in {self.study}"
        return f"{what}: {'; '.join(self.problems)}"


@dataclass(frozen=True)
class PlannedCampaign:
    """The plan of a search; a single study is a campaign of one, under its own name.

    Attributes:
        name: of the campaign.
        spec: the user's, with ``--set`` applied.
        studies: the possible ones, in the order of the spec, each with its share of the trials.
        skipped: the impossible ones, with reasons.
        trials: the budget of finished trials of all studies together.
    """

    name: str
    spec: Mapping[str, Any]
    studies: tuple[PlannedStudy, ...]
    skipped: tuple[Skipped, ...] = ()
    trials: int = 0

    @classmethod
    def of(cls, study: PlannedStudy) -> PlannedCampaign:
        """Return the plan of a single study."""
        spec = study.spec.model_dump(mode="json", exclude_unset=True)
        return cls(study.name, spec, (study,), trials=study.spec.budget.trials)

    @property
    def lone(self) -> bool:
        """Whether it is a single study under its own name."""
        return len(self.studies) == 1 and self.studies[0].name == self.name


@dataclass(frozen=True)
class CampaignRecord:
    """The record of a campaign at one moment; a single study is a campaign of one, under its own name.

    Attributes:
        name: of the campaign.
        studies: in the order of the spec, on one or several data sets.
        trials: the budget of finished trials of all studies together.
        constraints: those of a recommended setting, see :data:`tune_vfl.spec.constraints.Constraints`.
        confidence: of the constraints, one-sided.
        skipped: the impossible combinations of its spec.
        confirmation: the joint answer of its last confirmation; None without one.
    """

    name: str
    studies: tuple[StudyRecord, ...]
    trials: int
    constraints: Mapping[str, float] = field(default_factory=dict)
    confidence: float = 0.9
    skipped: tuple[Skipped, ...] = ()
    confirmation: JointConfirmation | None = None

    @classmethod
    def of(cls, study: StudyRecord | CampaignRecord) -> CampaignRecord:
        """Return the record of a single study as a campaign; a campaign comes back as it is."""
        if isinstance(study, CampaignRecord):
            return study
        spec = study.spec
        return cls(study.name, (study,), spec.budget.trials, dict(spec.constraints), spec.confidence)

    @property
    def lone(self) -> bool:
        """Whether it is a single study under its own name."""
        return len(self.studies) == 1 and self.studies[0].name == self.name

    @property
    def owed(self) -> int:
        """The number of running and waiting trials."""
        return sum(s.running + s.waiting for s in self.studies)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets, each once, in the order of the spec."""
        return tuple(dict.fromkeys(s.cell.dataset.name for s in self.studies))

    def on(self, dataset: str) -> CampaignRecord:
        """Return the campaign with the studies on one data set alone."""
        return replace(self, studies=tuple(s for s in self.studies if s.cell.dataset.name == dataset))

    def study(self, name: str) -> StudyRecord:
        """Return a study by its name."""
        return next(s for s in self.studies if s.name == name)

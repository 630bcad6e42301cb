"""A campaign as the ledger tells the rest of it: several studies of one spec, and what was asked of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import StudyRecord

if TYPE_CHECKING:
    from tune_vfl.records.joint_confirmation import JointConfirmation


@dataclass(frozen=True)
class Skipped:
    """What a campaign's spec asks for and cannot be: a whole study, or one attack of a study that is run without it.

    Attributes:
        study: its name; ``attack``: None for the whole study.
        problems: why, a sentence each.
    """

    study: str
    attack: str | None
    problems: tuple[str, ...]

    def __str__(self) -> str:
        what = self.study if self.attack is None else f"attack {self.attack} in {self.study}"
        return f"{what}: {'; '.join(self.problems)}"


@dataclass(frozen=True)
class PlannedCampaign:
    """What a spec asks for, ready to be run; a lone study is a campaign of one part that has its name.

    Attributes:
        name: of the campaign.
        spec: as the user gave it, settings laid over it.
        studies: the parts that can be run, in the order of the spec, each with its share of the trials.
        skipped: what cannot be, and why.
        trials: how many finished trials all parts are to have together.
    """

    name: str
    spec: Mapping[str, Any]
    studies: tuple[PlannedStudy, ...]
    skipped: tuple[Skipped, ...] = ()
    trials: int = 0

    @classmethod
    def of(cls, study: PlannedStudy) -> PlannedCampaign:
        """Return a lone study as a campaign."""
        spec = study.spec.model_dump(mode="json", exclude_unset=True)
        return cls(study.name, spec, (study,), trials=study.spec.budget.trials)

    @property
    def lone(self) -> bool:
        """Whether it is one study under its own name, of no campaign or run alone."""
        return len(self.studies) == 1 and self.studies[0].name == self.name


@dataclass(frozen=True)
class CampaignRecord:
    """A campaign as the ledger holds it at one moment; a lone study is one with one part.

    Attributes:
        name: of the campaign; a lone study's own.
        studies: its parts, in the order of the spec, of one or several data sets.
        trials: how many finished trials all parts are to have together.
        constraints: what a setting must keep to be an answer, see :data:`tune_vfl.spec.constraints.Constraints`.
        confidence: with which it must, one-sided.
        skipped: what its spec asks for and cannot be.
        confirmation: what its last confirmation found of all studies together; None without one.
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
        """Return a lone study as a campaign; a campaign comes back as it is."""
        if isinstance(study, CampaignRecord):
            return study
        spec = study.spec
        return cls(study.name, (study,), spec.budget.trials, dict(spec.constraints), spec.confidence)

    @property
    def lone(self) -> bool:
        """Whether it is one study that belongs to no campaign."""
        return len(self.studies) == 1 and self.studies[0].name == self.name

    @property
    def owed(self) -> int:
        """How many trials run or are still to be run."""
        return sum(s.running + s.waiting for s in self.studies)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets, each once, in the order of the spec."""
        return tuple(dict.fromkeys(s.cell.dataset.name for s in self.studies))

    def on(self, dataset: str) -> CampaignRecord:
        """Return the part of it that is on one data set."""
        return replace(self, studies=tuple(s for s in self.studies if s.cell.dataset.name == dataset))

    def study(self, name: str) -> StudyRecord:
        """Return a part by its name."""
        return next(s for s in self.studies if s.name == name)

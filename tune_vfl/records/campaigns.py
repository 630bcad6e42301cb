"""Campaigns: the studies of one spec, with shared trials and constraints, as planned or as measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ConfigDict

from tune_vfl.errors import UnknownNameError, UsageError
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import StudySpec

if TYPE_CHECKING:
    from tune_vfl.records.answers import Confirmation


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


Part = TypeVar("Part", bound=PlannedStudy)


@dataclass(frozen=True)
class Campaign(Generic[Part]):
    """The studies of one spec, as planned or as measured; a single study is a campaign of one, under its own name.

    Attributes:
        name: of the campaign.
        studies: the possible ones, in the order of the spec, on one or several data sets.
        trials: the budget of finished trials of all studies together.
        spec: the user's, with ``--set`` applied.
        skipped: the impossible ones, with reasons.
        confirmation: the joint answer of its last confirmation; None without one.
    """

    name: str
    studies: tuple[Part, ...]
    trials: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    confirmation: Confirmation | None = None

    @classmethod
    def of(cls, study: Part | Campaign[Part]) -> Campaign[Part]:
        """Return a single study as a campaign; a campaign comes back as it is."""
        if isinstance(study, Campaign):
            return study
        spec = study.spec.model_dump(mode="json", exclude_unset=True)
        return cls(study.name, (study,), study.spec.budget.trials, spec)

    @property
    def lone(self) -> bool:
        """Whether it is a single study under its own name."""
        return len(self.studies) == 1 and self.studies[0].name == self.name

    @property
    def constraints(self) -> Mapping[str, float]:
        """Those of a recommended setting, see :data:`tune_vfl.spec.constraints.Constraints`."""
        return self.spec.get("constraints") or {}

    @property
    def confidence(self) -> float:
        """The confidence of the constraints, one-sided."""
        return float(self.spec.get("confidence", StudySpec.model_fields["confidence"].default))

    @property
    def owed(self: CampaignRecord) -> int:
        """The number of running and waiting trials."""
        return sum(s.running + s.waiting for s in self.studies)

    def by_outcome(self: CampaignRecord) -> dict[str, int]:
        """Count the trials of all studies, see :meth:`tune_vfl.records.studies.StudyRecord.by_outcome`."""
        counts = Counter[str]()
        for study in self.studies:
            counts.update(study.by_outcome())
        return dict(counts)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets, each once, in the order of the spec."""
        return tuple(dict.fromkeys(s.cell.dataset.name for s in self.studies))

    def on(self, dataset: str) -> Campaign[Part]:
        """Return the campaign with the studies on one data set alone, and what was skipped of them."""
        studies = tuple(s for s in self.studies if s.cell.dataset.name == dataset)
        others = {s.name for s in self.studies} - {s.name for s in studies}
        # A skipped study is in no data set's list: its name, CAMPAIGN-DATASET-DEFENSE, tells its data set.
        elsewhere = tuple(f"{self.name}-{name}-" for name in self.datasets if name != dataset)
        skipped = tuple(s for s in self.skipped if s.study not in others and not s.study.startswith(elsewhere))
        return replace(self, studies=studies, skipped=skipped)

    def on_one(self, dataset: str | None) -> Campaign[Part]:
        """Return the campaign with the studies on one data set alone; its name may be left out where there is one.

        Raises:
            UsageError: where there are several and none is named.
            UnknownNameError: for another data set.
        """
        known = self.datasets
        if dataset is None and len(known) > 1:
            several = f"{self.name!r} has {len(known)} data sets ({', '.join(known)})"
            raise UsageError(f"{several}; say which, or name a setting as STUDY#21")
        if dataset is not None and dataset not in known:
            raise UnknownNameError(f"data set of {self.name!r}", dataset, known)
        return self.on(dataset or known[0])

    def study(self, name: str) -> Part:
        """Return a study by its name."""
        return next(s for s in self.studies if s.name == name)


PlannedCampaign = Campaign[PlannedStudy]
CampaignRecord = Campaign[StudyRecord]

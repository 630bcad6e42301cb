"""The joint front of a campaign's studies on one data set: every measured setting of every defense, laid side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from tune_vfl.evaluation.certainty import Certainty
    from tune_vfl.ledger.confirmations import ConfirmedPoint
    from tune_vfl.ledger.records import StudyRecord, TrialRecord
    from tune_vfl.ledger.trust import Alone
    from tune_vfl.outcome import Outcome


@dataclass(frozen=True)
class JointPoint:
    """One measured setting of one defense.

    Attributes:
        study, dataset, defense, number: which; ``trial``: as the ledger holds it.
        sure: intervals, from all settings of the data set that share its seeds and its undefended model.
        again: what a confirmation measured of it, whether it stayed on the front or not; None where it took no part.
        chance: of being on the joint front; from one seed 1 on the front and 0 behind it.
        on_front: whether it is on the joint front of what the search measured.
    """

    study: str
    dataset: str
    defense: str
    number: int
    trial: TrialRecord
    sure: Certainty
    again: ConfirmedPoint | None = None
    chance: float = 0.0
    on_front: bool = False

    @property
    def name(self) -> str:
        """What ``--select`` takes: ``STUDY#21``."""
        return f"{self.study}#{self.number}"

    @property
    def params(self) -> dict[str, Any]:
        """Its parameters, fixed ones included."""
        return self.trial.params

    @property
    def objectives(self) -> tuple[float, float]:
        """Utility and leakage as the search measured them: where it lies in a figure of the search."""
        return self.trial.outcome.objectives

    @property
    def confirmed(self) -> bool:
        """Whether a confirmation found it on the front."""
        return self.again is not None and self.again.confirmed


class Step(NamedTuple):
    """The joint hypervolume after one more trial that counts.

    Attributes:
        finished: when that trial did; ``study``, ``number``: which.
        hypervolume: of the joint front then.
    """

    finished: datetime
    study: str
    number: int
    hypervolume: float


@dataclass(frozen=True)
class Together:
    """Settings of the joint front, of any defenses, that their seeds cannot tell apart.

    Attributes:
        points: by falling utility.
        utility, leakage: lowest and highest of what the search measured.
    """

    points: tuple[JointPoint, ...]
    utility: tuple[float, float]
    leakage: tuple[float, float]


@dataclass(frozen=True)
class Joint:
    """All studies of a campaign on one data set, laid side by side.

    Attributes:
        dataset: its name; ``metric``: of the utility.
        parts: the studies, in the order of the campaign.
        points: all settings with objectives, study by study, by number.
        front: those on the joint front, by falling utility; equal ones all stay.
        together: the front, neighbors that cannot be told apart in one.
        reference: ``(utility, leakage)`` of the worst point that counts for the hypervolume.
        hypervolume: of the joint front; ``history``: of it after each trial that counts, in the order of their ends.
        knee: the best compromise, among confirmed settings where there are any; None without a point.
        undefended: the undefended model that all are compared with, that of the first study that has one; None without.
        undefended_sure: its intervals, where they are known.
        alone: the label party's own model; None where it was not measured.
    """

    dataset: str
    metric: str
    parts: tuple[StudyRecord, ...]
    points: tuple[JointPoint, ...]
    front: tuple[JointPoint, ...]
    together: tuple[Together, ...]
    reference: tuple[float, float]
    hypervolume: float
    history: tuple[Step, ...]
    knee: JointPoint | None
    undefended: Outcome | None
    undefended_sure: Certainty | None
    alone: Alone | None

    def point(self, study: str, number: int) -> JointPoint | None:
        """Return a setting; None where it has no objectives, or is not here."""
        return next((p for p in self.points if p.study == study and p.number == number), None)

    def of(self, defense: str) -> tuple[JointPoint, ...]:
        """Return the settings of one defense."""
        return tuple(p for p in self.points if p.defense == defense)

    @property
    def defenses(self) -> tuple[str, ...]:
        """The defenses, each once, in the order of the campaign."""
        return tuple(dict.fromkeys(part.cell.defense for part in self.parts))

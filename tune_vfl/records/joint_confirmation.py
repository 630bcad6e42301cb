"""The answer of a campaign's confirmation: all of its studies on each data set against each other.

Every study keeps an answer of its own beside it, a :class:`tune_vfl.records.confirmations.Confirmation` of its settings
alone, in which ``confirmed`` means the joint front. This one compares the settings of all studies.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tune_vfl.evaluation.checks import Check
from tune_vfl.records.confirmations import CONFIRMATION_SCHEMA, ConfirmedPoint, Line, UndefendedModel
from tune_vfl.spec import Strict

SettingKey = tuple[str, int]
"""A study's name and a trial's number, which a person writes as ``STUDY#21``."""


class PointName(Strict):
    """Which point of a campaign."""

    study: str
    number: int

    @property
    def setting(self) -> SettingKey:
        """Its study and trial."""
        return self.study, self.number

    def __str__(self) -> str:
        return f"{self.study}#{self.number}"


class JointLine(Line):
    """Confirmed settings of one data set without a significant difference.

    Attributes:
        dataset: on which they were measured.
        studies: of each of ``numbers``, its study.
        params: as of a :class:`Line` where all are of one study; parameters of different defenses make no range.
    """

    dataset: str
    studies: tuple[str, ...]

    @property
    def points(self) -> tuple[PointName, ...]:
        """Its settings, by falling utility."""
        return tuple(PointName(study=s, number=n) for s, n in zip(self.studies, self.numbers, strict=True))


class JointConfirmation(Strict):
    """The answer of a campaign's confirmation, with a value for each data set by name.

    Attributes:
        name: the campaign.
        measure: how it is measured.
        seeds: the fresh seeds that every confirmed setting has had.
        points: of all studies, data set by data set, each by falling utility, those without numbers last. ``on_front``
            and ``confirmed`` mean the joint front of the data set, of the search and of the fresh seeds.
        lines: the confirmed settings, grouped where no difference is significant.
        checks: limits of the result.
        reserve: how many rows the utility was measured on that no search has seen; 0 without a reserve.
        baseline: the undefended model; where defenses met different attacks, the one that most studies share.
        gap: how much better the search's joint front looked than it is, see
            :class:`tune_vfl.records.confirmations.Confirmation`.
        knee: the best compromise among those that are confirmed; a data set without one is left out.
    """

    schema_id: Literal["tune-vfl/confirmation/1"] = Field(CONFIRMATION_SCHEMA, alias="schema")
    name: str
    measure: int
    seeds: tuple[int, ...]
    points: tuple[ConfirmedPoint, ...]
    lines: tuple[JointLine, ...]
    checks: tuple[Check, ...]
    reserve: dict[str, int]
    baseline: dict[str, UndefendedModel]
    gap: dict[str, dict[str, float]]
    knee: dict[str, PointName]

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, as ``confirm --json`` prints it."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def by_setting(self) -> dict[SettingKey, ConfirmedPoint]:
        """The confirmed points by study and trial; those that did not stay are left out."""
        return {(p.study, p.number): p for p in self.points if p.confirmed}

    def on(self, dataset: str) -> tuple[ConfirmedPoint, ...]:
        """Return the points on one data set."""
        return tuple(p for p in self.points if p.dataset == dataset)

"""The answer of a confirmation: of a study, or of all studies of a campaign against each other on each data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer, model_validator

from tune_vfl.evaluation.checks import Check
from tune_vfl.records.confirmations import ConfirmedPoint, UndefendedModel
from tune_vfl.spec import Strict

SettingKey = tuple[str, int]
"""A study's name and a trial's number, which a person writes as ``STUDY#21``."""

_OF_A_STUDY = (
    *("schema", "name", "measure", "seeds", "reserve", "points", "baseline"),
    *("lines", "gap", "checks", "knee"),
)
"""The keys of a study's answer as plain data, in their order."""
_VALUES = ("reserve", "baseline", "gap")


class PointName(Strict):
    """Which point of an answer."""

    study: str
    number: int

    @property
    def setting(self) -> SettingKey:
        """Its study and trial."""
        return self.study, self.number

    def __str__(self) -> str:
        return f"{self.study}#{self.number}"


class Line(Strict):
    """Confirmed settings of one data set without a significant difference.

    Attributes:
        numbers: the trials, by falling utility; ``studies``: of each, its study.
        params: the parameters that vary among settings of one study, a range each: ``[low, high]`` of numbers, else all
            values; those of different defenses make no range.
        utility, leakage: lowest and highest.
        dataset: on which they were measured.
    """

    numbers: tuple[int, ...]
    params: dict[str, list[Any]]
    utility: tuple[float, float]
    leakage: tuple[float, float]
    dataset: str
    studies: tuple[str, ...]

    @property
    def points(self) -> tuple[PointName, ...]:
        """Its settings, by falling utility."""
        return tuple(PointName(study=s, number=n) for s, n in zip(self.studies, self.numbers, strict=True))


class Confirmation(Strict):
    """The answer of a confirmation, with a value for each data set by name.

    Every study of a campaign keeps an answer of its own settings alone, in which ``confirmed`` means the front of all
    studies on the data set. As plain data an answer of a study has the values themselves, since it has one data set.

    Attributes:
        name: the study or the campaign.
        measure: how it is measured.
        seeds: the fresh seeds that every confirmed setting has had.
        points: data set by data set, each by falling utility, those without numbers last. ``on_front`` and
            ``confirmed`` mean the front of the search and that of the fresh seeds.
        lines: the confirmed settings, grouped where no difference is significant.
        checks: limits of the result.
        reserve: how many rows the utility was measured on that no search has seen; 0 without a reserve.
        baseline: the undefended model; where defenses met different attacks, the one that most studies share.
        gap: how much better the search's front looked than it is on fresh seeds and rows, means over its points:
            ``utility`` and ``leakage``, larger is more optimistic.
        knee: the best compromise among those that are confirmed; a data set without one is left out.
        joint: whether it is a campaign's.
    """

    schema_id: Literal["tune-vfl/confirmation/1"] = Field("tune-vfl/confirmation/1", alias="schema")
    name: str
    measure: int
    seeds: tuple[int, ...]
    points: tuple[ConfirmedPoint, ...]
    lines: tuple[Line, ...]
    checks: tuple[Check, ...]
    reserve: dict[str, int]
    baseline: dict[str, UndefendedModel]
    gap: dict[str, dict[str, float]]
    knee: dict[str, PointName]
    joint: bool = Field(True, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _by_dataset(cls, raw: Any) -> Any:
        """Put the values of a study's answer under its data set."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("reserve"), int):
            return raw
        name, knee = raw.get("name"), raw.get("knee")
        try:
            dataset = str(raw["points"][0]["dataset"]) if raw["points"] else ""
            lines = [{**one, "dataset": dataset, "studies": [name] * len(one["numbers"])} for one in raw["lines"]]
            values = {key: {dataset: raw[key]} for key in _VALUES}
        except (LookupError, TypeError):  # it is refused as what it is
            return raw
        named = {} if knee is None else {dataset: {"study": name, "number": knee}}
        return {**raw, **values, "lines": lines, "knee": named, "joint": False}

    @model_serializer(mode="wrap")
    def _as_written(self, written: SerializerFunctionWrapHandler, how: SerializationInfo) -> dict[str, Any]:
        plain: dict[str, Any] = written(self)
        if self.joint:
            return plain
        plain |= {key: next(iter(plain[key].values())) for key in _VALUES}
        plain["lines"] = [{k: v for k, v in one.items() if k not in ("dataset", "studies")} for one in plain["lines"]]
        plain["knee"] = next((point["number"] for point in plain["knee"].values()), None)
        return {key: plain[key] for key in _OF_A_STUDY if plain[key] is not None or not how.exclude_none}

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, as ``confirm --json`` prints it."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def undefended(self) -> UndefendedModel:
        """The undefended model that a study's own settings are compared with."""
        return next(iter(self.baseline.values()))

    @property
    def by_setting(self) -> dict[SettingKey, ConfirmedPoint]:
        """The confirmed points by study and trial; those that did not stay are left out."""
        return {(p.study, p.number): p for p in self.points if p.confirmed}

    def on(self, dataset: str) -> tuple[ConfirmedPoint, ...]:
        """Return the points on one data set."""
        return tuple(p for p in self.points if p.dataset == dataset)

"""Plans of studies: resolved specs with their search spaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tune_vfl.evaluation.coverage import Coverage
from tune_vfl.spaces.space import Space, point_key
from tune_vfl.spec import MEASURE, StudySpec, parse
from tune_vfl.spec.cell import Cell

# Places in the identity below that may differ without making it another study. The first four say how fast, how long
# and where it runs; the next three what its answer must keep, and where trials go; then what is tried first, and what
# ends it. ``training`` is the spec's own, and may leave fields to the data set's recipe: what a trial is trained with
# is in ``resolved.training``, which counts.
_MAY_DIFFER = (
    *("resources", "storage", "tracking", "budget.minutes"),
    *("constraints", "confidence", "allocation"),
    *("start", "stop"),
    "training",
)


@dataclass(frozen=True)
class PlannedStudy:
    """The plan of one study.

    Attributes:
        spec: the user's.
        cell: the resolved spec.
        space: the search space.
        measure: how it is measured, see :data:`tune_vfl.spec.cell.MEASURE`; today's unless the ledger says otherwise.
        data: the fingerprint of the data at the time of planning; empty where none was taken.
        campaign: its campaign; empty for a study of none.
        coverage: the attackers that it covers; None where it was not worked out.
        id: what tells the study, or its campaign, from every other one of whatever name and ledger; empty before the
            ledger has drawn it.
    """

    spec: StudySpec
    cell: Cell
    space: Space
    measure: int = MEASURE
    data: str = ""
    campaign: str = ""
    coverage: Coverage | None = None
    id: str = ""

    @property
    def name(self) -> str:
        """The study's name."""
        return self.spec.study

    @property
    def experiment(self) -> str:
        """The name of its campaign, or its own without one: of its lease, its report and its experiment in MLflow."""
        return self.campaign or self.name

    @property
    def first(self) -> list[dict[str, Any]]:
        """The settings that are tried before the sampler asks: the spec's own, then published ones, each once."""
        own = [dict(point) for point in self.spec.start if not isinstance(point, str)]
        points: dict[str, dict[str, Any]] = {}
        for point in (*own, *(dict(published.params) for published in self.space.published)):
            points.setdefault(point_key(point), point)
        return list(points.values())

    def changed(self, *, trials: int | None = None, name: str | None = None) -> PlannedStudy:
        """Return the plan with another budget of finished trials or another name.

        Raises:
            SpecError: for a name or a budget that no study can have.
        """
        if trials is None and name is None:
            return self
        raw = self.spec.model_dump(exclude_unset=True)
        if trials is not None:
            raw["budget"] = {**raw.get("budget", {}), "trials": trials}
        if name is not None:
            raw["study"] = name
        return replace(self, spec=parse(raw))

    def dumped(self) -> dict[str, Any]:
        """Return plain data, without the fields that the spec leaves to the data set's recipe, and without the id."""
        return {
            "spec": self.spec.model_dump(mode="json", exclude_unset=True),
            "cell": self.cell.model_dump(mode="json"),
            "space": self.space.model_dump(mode="json", by_alias=True, exclude_none=True),
            "measure": self.measure,
            "data": self.data,
            "campaign": self.campaign,
            "coverage": None if self.coverage is None else self.coverage.model_dump(mode="json"),
        }

    @classmethod
    def read(cls, dumped: Mapping[str, Any]) -> PlannedStudy:
        """Parse the result of :meth:`dumped`; other keys are ignored."""
        return cls(
            spec=StudySpec.model_validate(dumped["spec"]),
            cell=Cell.model_validate(dumped["cell"]),
            space=Space.model_validate(dumped["space"]),
            measure=int(dumped["measure"]),
            data=str(dumped.get("data", "")),
            campaign=str(dumped.get("campaign", "")),
            coverage=Coverage.model_validate(covered) if (covered := dumped.get("coverage")) else None,
            id=str(dumped.get("id") or ""),
        )

    def as_held(self) -> PlannedStudy:
        """Return the plan as it comes back from the ledger."""
        return self.read(self.dumped())

    def difference(self, other: PlannedStudy) -> list[str]:
        """Return ``field: mine -> other's`` for every difference that makes the other another study.

        More trials are the same study; other data are another one. The trials of a campaign's study are not compared.
        """
        mine, theirs = _flat(self._identity()), _flat(other._identity())
        if other.campaign or other.spec.budget.trials > self.spec.budget.trials:
            del theirs["budget.trials"], mine["budget.trials"]
        fields = sorted({*mine, *theirs})
        different = [f for f in fields if mine.get(f) != theirs.get(f)]
        told = [f"{f}: {mine.get(f, 'not given')!r} -> {theirs.get(f, 'not given')!r}" for f in different]
        if self.data and other.data and self.data != other.data:
            told.append(f"the data's rows, by their fingerprint: {self.data} -> {other.data}")
        return told

    def _identity(self) -> dict[str, Any]:
        spec = self.spec.model_dump(mode="json")
        # What the cell has resolved from the spec is compared as it was resolved, and not twice.
        return {
            **{k: v for k, v in spec.items() if k not in {"dataset", "model", "attacks"}},
            "resolved": self.cell.model_dump(mode="json"),
            "searched": self.space.model_dump(mode="json", by_alias=True, exclude_none=True)["params"],
        }


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    if place in _MAY_DIFFER:
        return {}
    if isinstance(value, Mapping):
        parts = [_flat(v, f"{place}.{k}" if place else str(k)) for k, v in value.items()]
        return {k: v for part in parts for k, v in part.items()}
    return {place: value}

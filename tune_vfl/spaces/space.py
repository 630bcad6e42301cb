"""A search space: which of a defense's parameters are searched, over what, and which published settings come first.

Ranges come from ``search_spaces/DEFENSE.yaml`` by name, or written out in the spec. A parameter that the spec fixes is
no longer a dimension.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from tune_vfl.errors import SpecError
from tune_vfl.spec import Strict, explain
from tune_vfl.spec.cell import as_text, from_text, is_ordinary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution

Value = float | int | str | bool | None
# A database of trials holds no lists: one among the values is held as its JSON text, and written as a list again.
Listed = Annotated[Value, BeforeValidator(as_text), PlainSerializer(from_text)]


def point_key(params: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal parameters and for no others."""
    return json.dumps({k: float(v) if _is_number(v) else v for k, v in params.items()}, sort_keys=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Dimension(Strict):
    """One searched parameter: exactly one of ``float``, ``int`` and ``choice``.

    Attributes:
        float_: ``(low, high)``, both included.
        int_: ``(low, high)``, both included.
        choice: the values.
        log: searched on a log scale.
        at_most: ``classes`` caps ``high`` at the number of classes.
        grid: the values of the grid sampler; without them levels are spread over the range.
        source: where range and grid come from.
    """

    float_: tuple[float, float] | None = Field(None, alias="float")
    int_: tuple[int, int] | None = Field(None, alias="int")
    choice: tuple[Listed, ...] | None = Field(None, min_length=1)
    log: bool = False
    at_most: Literal["classes"] | None = None
    grid: tuple[Listed, ...] = ()
    source: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> Dimension:
        given = [k for k in (self.float_, self.int_, self.choice) if k is not None]
        if len(given) != 1:
            raise ValueError("expected exactly one of float: [low, high], int: [low, high] and choice: [values]")
        if self.choice is None:
            low, high = self.bounds
            if not (math.isfinite(low) and math.isfinite(high)) or low > high:
                raise ValueError(f"expected finite low <= high, got [{low}, {high}]")
            if self.log and low <= 0:
                raise ValueError(f"a log scale needs a low above 0, got {low}")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """``(low, high)`` of a numeric dimension."""
        bounds = self.float_ or self.int_
        if bounds is None:
            raise ValueError("a choice has no bounds")
        return bounds

    @property
    def largest(self) -> int:
        """The largest of whole numbers."""
        return max(int(v) for v in self.choice or self.bounds if v is not None)

    @property
    def size(self) -> float:
        """How many values it has; infinite for a float range."""
        if self.choice is not None:
            return len(self.choice)
        low, high = self.bounds
        return high - low + 1 if self.int_ else (1 if low == high else math.inf)

    def capped(self, num_classes: int) -> Dimension:
        """Return it with ``at_most`` applied."""
        if self.at_most is None or self.choice is not None:
            return self
        low, high = self.bounds
        top = min(high, num_classes)
        if top < low:
            raise SpecError(f"the range starts at {low:g}, above the {num_classes} classes of this data set")
        kind = "int_" if self.int_ else "float_"
        fitting = tuple(v for v in self.grid if not _is_number(v) or float(v) <= top)  # type: ignore[arg-type]
        return self.model_copy(update={kind: (low, top), "at_most": None, "grid": fitting})

    def holds(self, value: Any) -> bool:
        """Return whether ``value`` is inside."""
        if self.choice is not None:
            return any(value == c and isinstance(value, bool) == isinstance(c, bool) for c in self.choice)
        low, high = self.bounds
        return _is_number(value) and low <= value <= high and (self.int_ is None or value == int(value))

    def nearest(self, value: Any) -> Any:
        """Return ``value`` where it is inside, else the nearer end of a range, or the first of the choices."""
        value = as_text(value)
        if self.holds(value):
            return value
        if self.choice is not None:
            return self.choice[0]
        low, high = self.bounds
        return min(max(value, low), high) if _is_number(value) else low

    def levels(self, count: int) -> list[Value]:
        """Return the grid's values: the listed ones, else all of a small range, else ``count`` spread evenly."""
        if self.grid:
            return list(self.grid)
        if self.choice is not None:
            return list(self.choice)
        if self.size <= count:
            return self.all_values()
        low, high = (math.log(b) for b in self.bounds) if self.log else self.bounds
        steps = [low + (high - low) * i / max(1, count - 1) for i in range(count)]
        spread = [math.exp(s) if self.log else s for s in steps]
        inside = [min(max(v, self.bounds[0]), self.bounds[1]) for v in spread]
        return list(dict.fromkeys(round(v) for v in inside)) if self.int_ else list(inside)

    def all_values(self) -> list[Value]:
        """Return every value of a finite dimension."""
        if self.choice is not None:
            return list(self.choice)
        low, high = self.bounds
        return list(range(int(low), int(high) + 1)) if self.int_ else [low]

    def distribution(self) -> BaseDistribution:
        """Return it as Optuna's distribution."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.choice is not None:
            return CategoricalDistribution(self.choice)
        if self.int_ is not None:
            return IntDistribution(*self.int_, log=self.log)
        low, high = self.bounds
        return FloatDistribution(low, high, log=self.log)


class Published(Strict):
    """A setting that somebody has published."""

    params: dict[str, Any]
    source: str = ""


class Space(Strict):
    """What a study searches.

    Attributes:
        params: the dimensions by parameter.
        published: settings that are tried first, best known first.
    """

    params: dict[str, Dimension] = Field(default_factory=dict)
    published: tuple[Published, ...] = ()

    @property
    def size(self) -> float:
        """How many points it has: 1 without dimensions, infinite with a float range."""
        return math.prod((d.size for d in self.params.values()), start=1)

    @property
    def ordinary(self) -> list[str]:
        """The dimensions that are parameters of training or model: trials that differ there share no pass."""
        return [name for name in self.params if is_ordinary(name)]

    @property
    def typical(self) -> dict[str, Any]:
        """A setting to stand for all of them: the first published one, else the middle of every dimension."""
        if self.published:
            return dict(self.published[0].params)
        levels = {name: d.levels(3) for name, d in self.params.items()}
        return {name: values[len(values) // 2] for name, values in levels.items()}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return Optuna's distributions, one per dimension."""
        return {name: d.distribution() for name, d in self.params.items()}

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Return whether ``params`` names every dimension, nothing else, and lies inside."""
        return set(params) == set(self.params) and all(d.holds(params[n]) for n, d in self.params.items())

    def grid(self, trials: int) -> list[dict[str, Any]]:
        """Return the grid's points; dimensions without listed values get enough levels for ``trials`` points.

        Never fewer than 3 levels for such a dimension, so that its middle is seen.
        """
        count = 3
        while len(self._product(count)) < trials and self._product(count + 1) != self._product(count):
            count += 1
        return self._product(count)

    def points(self) -> list[dict[str, Any]]:
        """Return every point of a finite space."""
        if math.isinf(self.size):
            raise ValueError("the space is not finite")
        names = list(self.params)
        return [
            dict(zip(names, v, strict=True)) for v in itertools.product(*(self.params[n].all_values() for n in names))
        ]

    def _product(self, count: int) -> list[dict[str, Any]]:
        names = list(self.params)
        levels = [self.params[n].levels(count) for n in names]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*levels)]

    def joined(self, ordinary: Mapping[str, Dimension], own: Mapping[str, Any]) -> Space:
        """Return the space with dimensions of training and model; published settings get what is nearest to ``own``."""
        start = {name: dimension.nearest(own[name]) for name, dimension in ordinary.items()}
        wider = Space(params={**self.params, **ordinary})
        settings = [Published(params=wider.typed({**p.params, **start}), source=p.source) for p in self.published]
        return wider.model_copy(update={"published": tuple(settings)})

    def typed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``params`` with the types of the dimensions (an int range gives ints, a float range floats)."""

        def one(dimension: Dimension, value: Any) -> Any:
            if dimension.int_ is not None:
                return int(value)
            return float(value) if dimension.float_ is not None else value

        return {name: one(d, params[name]) for name, d in self.params.items()}


def fitted(raw: Space, fixed: Mapping[str, Any], num_classes: int) -> Space:
    """Return ``raw`` for one study: ranges capped, fixed parameters gone, published settings that still fit.

    A published setting fits when it agrees with every fixed parameter and lies inside the ranges.
    """
    params, problems = {}, []
    for name, dimension in raw.params.items():
        if name in fixed:
            continue
        try:
            params[name] = dimension.capped(num_classes)
        except SpecError as error:
            problems.append(f"defense.space.{name}: {error}")
    if problems:
        raise SpecError(problems)
    space = Space(params=params)
    return space.model_copy(update={"published": _fitting(space, raw.published, fixed)})


def _fitting(space: Space, published: Sequence[Published], fixed: Mapping[str, Any]) -> tuple[Published, ...]:
    kept = []
    for setting in published:
        agrees = all(setting.params[n] == fixed[n] for n in setting.params if n in fixed)
        searched = {n: v for n, v in setting.params.items() if n not in fixed}
        if agrees and space.holds(searched):
            kept.append(Published(params=space.typed(searched), source=setting.source))
    return tuple(kept)


def parse_space(raw: Mapping[str, Any], place: str) -> Space:
    """Read a space from a mapping: ``{params: ..., published: ...}`` or just the parameters.

    Raises:
        SpecError: listing every problem, each with its ``place``.
    """
    body = raw if not raw or set(raw) <= {"params", "published"} else {"params": dict(raw)}
    try:
        return Space.model_validate(dict(body))
    except ValidationError as error:
        problems = [p.removeprefix("params.") for p in explain(error, Space)]
        raise SpecError([f"{place}.{p}" for p in problems]) from error

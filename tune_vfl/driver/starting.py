"""The settings that a study file gives under ``start``: each is checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from tune_vfl.config import load_config
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.errors import ConfigError, SpecError, did_you_mean
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.recipe import own_values
from tune_vfl.spaces.space import Dimension, point_key
from tune_vfl.spec.cell import as_text, from_text, is_ordinary


def with_starts(studies: Sequence[PlannedStudy]) -> list[PlannedStudy]:
    """Return studies whose ``start`` holds points of their spaces, in place of settings and files as they were given.

    Raises:
        SpecError: with every problem of all studies.
    """
    problems: list[str] = []
    ready = []
    for study in studies:
        points: dict[str, dict[str, Any]] = {}
        for number, given in enumerate(study.spec.start):
            try:
                point = _point(study, given, f"start.{number}")
            except SpecError as error:
                problems += error.problems
                continue
            if point_key(point) in points:
                before = list(points).index(point_key(point))
                problems.append(f"start.{number}: is the same setting as start.{before}; leave one of them out")
            points[point_key(point)] = point
        if len(points) > (most := study.spec.budget.trials):
            problems.append(
                f"start: expected at most {most} settings, one for each trial of budget.trials, got {len(points)}; "
                "raise budget.trials, or leave some out"
            )
        spec = study.spec.model_copy(update={"start": tuple(points.values())}) if points else study.spec
        ready.append(replace(study, spec=spec))
    if problems and len({study.cell.defense for study in studies}) > 1:
        problems.append("start: of several defenses each has its own: defense: [{name: NAME, start: [...]}]")
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return ready


def _point(study: PlannedStudy, given: str | Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a setting as a point of a study's space.

    Parameters of training and model that it does not name get the spec's own value, as published settings do.
    """
    setting = _exported(study, given, place) if isinstance(given, str) else dict(given)
    searched, of = study.space.params, f"defense {study.cell.defense!r}"
    own = [name for name in searched if not is_ordinary(name)]
    names = [*dict.fromkeys([*own, *DEFENSES[study.cell.defense].Params.model_fields]), *study.space.ordinary]
    problems = [
        f"{place}.{name}: is no parameter of {of}, nor searched in training or model.{did_you_mean(name, names)} "
        f"Known: {', '.join(names) or 'none'}."
        for name in setting
        if name not in names
    ]
    if left_out := [name for name in own if name not in setting]:
        problems.append(
            f"{place}: expected a value of each parameter that is searched of {of} ({', '.join(own)}), got none of "
            f"{', '.join(left_out)}"
        )
    usual = own_values(study.cell, study.space.ordinary)
    values = {
        name: as_text(setting[name]) if name in setting else dimension.nearest(usual.get(name))
        for name, dimension in searched.items()
        if name not in left_out
    }
    problems += [
        f"{place}.{name}: expected {_range(searched[name])}, got {value!r}; leave the setting out, or search a wider "
        f"space ({'' if is_ordinary(name) else 'defense.space.'}{name})"
        for name, value in values.items()
        if not searched[name].holds(value)
    ]
    if problems:
        raise SpecError(problems)
    point = study.space.typed(values)
    _refuse_unusable(study, point, {k: v for k, v in setting.items() if k not in searched}, place)
    return point


def _exported(study: PlannedStudy, path: str, place: str) -> dict[str, Any]:
    """Return the setting of a file that ``tune-vfl export`` wrote, with its training and model where they are searched.

    Raises:
        SpecError: when it is no such file, or a setting of another defense.
    """
    try:
        config = load_config(path)
    except ConfigError as error:
        raise SpecError(f"{place}: {error}") from error
    if config.defense.name != study.cell.defense:
        raise SpecError(
            f"{place}: {path} is a setting of defense {config.defense.name!r}, expected one of "
            f"{study.cell.defense!r}; with several defenses put it into the entry of its own, "
            f"defense: [{{name: {config.defense.name}, start: [{path}]}}]"
        )
    ordinary = own_values(config.cell, study.space.ordinary)
    return {**config.defense.params, **{name: value for name, value in ordinary.items() if value is not None}}


def _refuse_unusable(study: PlannedStudy, point: Mapping[str, Any], others: Mapping[str, Any], place: str) -> None:
    """Refuse a point that the defense refuses, or that stands beside values which the study does not have.

    Args:
        study: the plan.
        point: of its space.
        others: given values of parameters that the study does not search.
        place: of the setting.
    """
    cell, cls = study.cell, DEFENSES[study.cell.defense]
    given = {**cell.fixed, **{name: from_text(value) for name, value in point.items() if not is_ordinary(name)}}
    try:
        params = defense_params(cell.defense, given, num_classes=cell.num_classes)
    except SpecError as error:
        raise SpecError([f"{place}: {problem}" for problem in error.problems]) from error
    problems = [f"{place}: {said}" for said in cls.problems(params, num_classes=cell.num_classes, mode=cell.mode)]
    held = params.model_dump(mode="json")
    problems += [
        f"{place}.{name}: expected {held[name]!r}, which the study has and does not search, got {value!r}; fix another "
        f"value (defense.params.{name}), or search it (defense.space.{name})"
        for name, value in others.items()
        if to_jsonable_python(value) != held[name]
    ]
    if problems:
        raise SpecError(problems)


def _range(dimension: Dimension) -> str:
    """Return what a dimension holds, in words."""
    if dimension.choice is not None:
        return f"one of {', '.join(repr(from_text(value)) for value in dimension.choice)}"
    low, high = dimension.bounds
    kind = "a whole number" if dimension.int_ else "a number"
    return f"{kind} from {low:g} to {high:g}"

"""Finding a defense's space and holding it against the defense's own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tune_vfl.data.base import Dataset
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import SpecError, UnknownNameError, did_you_mean
from tune_vfl.evaluation.resolving import in_its_federation
from tune_vfl.spaces.recipe import dimensions, own_values
from tune_vfl.spaces.space import Space, fitted, parse_space
from tune_vfl.spec import FederationName, Strict, StudySpec, explain
from tune_vfl.spec.cell import Cell, Mode
from tune_vfl.spec.yaml_text import load_yaml


@cache
def _folders() -> tuple[Path, ...]:
    # A folder of data without code: importlib.resources stumbles over the finder of an editable installation.
    found = find_spec("search_spaces")
    listed = found.submodule_search_locations if found else None
    return tuple(p for p in map(Path, listed or ()) if p.is_dir())


def space_files() -> list[str]:
    """Return the defenses that have a file of spaces, sorted."""
    return sorted({f.stem for folder in _folders() for f in folder.glob("*.yaml")})


def named_spaces(defense: str) -> dict[str, Space]:
    """Return the named spaces of a defense, as its file gives them.

    Raises:
        SpecError: when there is no file, or it is broken.
    """
    file = _file(defense)
    if file is None:
        params = list(DEFENSES[defense].Params.model_fields)
        space = f"space: {{{params[0] if params else 'PARAMETER'}: {{float: [LOW, HIGH]}}}}"
        raise SpecError(
            f"defense {defense!r} has no file of search spaces: a search needs a range of each parameter that it may "
            f"set, defense: {{name: {defense}, {space}}}; for one setting give params in place of space; its "
            f"parameters: {', '.join(params) or 'none'}"
        )
    raw = load_yaml(file.read_text(encoding="utf-8"), f"search_spaces/{defense}.yaml")
    if not isinstance(raw, dict):
        raise SpecError(f"search_spaces/{defense}.yaml: expected a mapping of named spaces")
    return {name: parse_space(body, f"search_spaces/{defense}.yaml: {name}") for name, body in raw.items()}


def _file(defense: str) -> Path | None:
    return next((f / f"{defense}.yaml" for f in _folders() if (f / f"{defense}.yaml").is_file()), None)


def load_space(
    defense: str,
    space: str | Mapping[str, Any] = "default",
    *,
    fixed: Mapping[str, Any] | None = None,
    num_classes: int,
    mode: Mode = "split",
    federation: FederationName = "vertical",
) -> Space:
    """Return the space that one study searches.

    Args:
        defense: its registered name.
        space: a named space of the defense, or one written out; without a file of spaces there is one point, the fixed
            parameters.
        fixed: the parameters that the spec fixes; they are not searched.
        num_classes: K.
        mode: the architecture; published settings that the defense refuses there are left out.
        federation: the setting; the default space is that of its name, such as ``horizontal``, if there is one.

    Raises:
        SpecError: listing every problem: unknown names with the nearest known one, ranges that the defense does not
        take.
    """
    raw = _find(defense, space, federation, fixed or {})
    params = DEFENSES[defense].Params
    problems = _problems(raw, params)
    if problems:
        raise SpecError(problems)
    ready = fitted(raw, fixed or {}, num_classes)
    kept = tuple(p for p in ready.published if _usable(defense, {**(fixed or {}), **p.params}, num_classes, mode))
    return ready.model_copy(update={"published": kept})


def space_of(spec: StudySpec, cell: Cell, dataset: Dataset | None = None) -> Space:
    """Return the space of a study: that of its defense (:func:`load_space`), and the domains in training and model.

    Raises:
        SpecError: listing every problem.
    """
    space = load_space(
        cell.defense,
        spec.defense.space,
        fixed=spec.defense.params,
        num_classes=cell.num_classes,
        mode=cell.mode,
        federation=cell.federation.name,
    )
    ordinary = dimensions(spec, cell, dataset)
    return space.joined(ordinary, own_values(cell, ordinary)) if ordinary else space


def space_problems(spec: StudySpec) -> list[str]:
    """Return what is wrong with the space of a spec's defense whatever the data are; nothing for unknown defenses."""
    if spec.defense.name not in DEFENSES:
        return []
    try:
        federation = in_its_federation(spec).federation.name
        found = _find(spec.defense.name, spec.defense.space, federation, spec.defense.params)
        return _problems(found, DEFENSES[spec.defense.name].Params)
    except SpecError as error:
        return error.problems


def _find(defense: str, space: str | Mapping[str, Any], federation: FederationName, fixed: Mapping[str, Any]) -> Space:
    if not isinstance(space, str):
        return parse_space(space, "defense.space")
    if space == "default" and _file(defense) is None and (fixed or not DEFENSES[defense].Params.model_fields):
        return Space()
    known = named_spaces(defense)
    if space == "default" and federation in known:
        return known[federation]
    if space not in known:
        raise UnknownNameError(f"space of {defense}", space, sorted(known))
    return known[space]


def _problems(space: Space, params: type[Strict]) -> list[str]:
    known = list(params.model_fields)
    problems = []
    for name, dimension in space.params.items():
        if name not in known:
            hint = did_you_mean(name, known)
            problems.append(
                f"defense.space.{name}: the defense has no such parameter.{hint} It has: {', '.join(known)}."
            )
            continue
        ends = dimension.choice if dimension.choice is not None else dimension.bounds
        outside = [v for v in dimension.grid if not dimension.holds(v)]
        problems += [f"defense.space.{name}: grid value {v!r} is outside the range" for v in outside]
        for value in dict.fromkeys(ends):
            problems += _refusals(params, name, int(value) if dimension.int_ else value)  # type: ignore[arg-type]
    return list(dict.fromkeys(problems))


def _refusals(params: type[Strict], name: str, value: Any) -> list[str]:
    try:
        params.model_validate({name: value})
    except ValidationError as error:
        # Other fields may be required, or bound to this one by a rule of the whole: those are checked point by point.
        own = [e for e in error.errors(include_url=False) if e["loc"][:1] == (name,)]
        return [
            p for p in (f"defense.space.{t}" for t in explain(error)) if own and p.startswith(f"defense.space.{name}")
        ]
    return []


def _usable(defense: str, params: Mapping[str, Any], num_classes: int, mode: Mode) -> bool:
    cls = DEFENSES[defense]
    try:
        full = cls.Params.model_validate(cls.completed(params, num_classes=num_classes))
        return not cls.problems(full, num_classes=num_classes, mode=mode)
    except ValidationError:
        return False

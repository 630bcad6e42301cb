"""Domains over the ordinary parameters of a study: fields of training and options of the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tune_vfl.data.base import Dataset
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.models.base import build_model
from tune_vfl.spaces.space import Dimension, parse_space
from tune_vfl.spec import StudySpec
from tune_vfl.spec.cell import Cell, as_text, from_text

_WIDTH = "model.embedding_dim"
_ARCHITECTURE = "each architecture has options, views and floors of its own; make a study of each"


def dimensions(spec: StudySpec, cell: Cell, dataset: Dataset | None = None) -> dict[str, Dimension]:
    """Return what a spec searches in training and model, by name: ``training.lr``.

    Every value of a choice and both ends of a range are resolved as if the spec gave them, and come out as their
    field has them: a text such as ``1e-3`` as a number.

    Args:
        spec: the study.
        cell: as it was resolved, every searched field at its own value.
        dataset: the spec's, where it is loaded already.

    Raises:
        SpecError: listing every problem, each with its place.
    """
    found: dict[str, Dimension] = {}
    problems: list[str] = []
    for name, raw in spec.searched.items():
        part, _, field = name.partition(".")
        try:
            found[name] = parse_space({"params": {field: raw}}, part).params[field]
        except SpecError as error:
            problems += error.problems
    study = _Resolver(spec, cell, dataset)
    checked = {name: _checked(study, name, d, problems) for name, d in found.items()}
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return checked


def own_values(cell: Cell, names: Iterable[str]) -> dict[str, Any]:
    """Return what a cell itself has of these ordinary parameters, by name."""
    implied = build_model(cell.model).options.implied()
    return {n: implied.get(n.removeprefix("model."), cell.value_of(n)) for n in names}


@dataclass(frozen=True)
class _Resolver:
    """A study's spec, cell and data, by which each value of a domain becomes one of its field."""

    spec: StudySpec
    cell: Cell
    dataset: Dataset | None

    def value_of(self, name: str, value: Any) -> Any:
        """Return a value of a field as the field has it."""
        task = open_task(self.spec.at(name, value), dataset=self.dataset)
        there = task.cell
        if not task.architecture.joins and there.value_of(_WIDTH) != self.cell.value_of(_WIDTH):
            raise SpecError(
                f"{name}: with {value!r} the feature maps at the cut are {there.value_of(_WIDTH)} numbers, "
                "and all of a study send equally many: make a study of each"
            )
        if there.mode != self.cell.mode:
            raise SpecError(f"{name}: {value!r} makes it {there.mode}, this study is {self.cell.mode}: {_ARCHITECTURE}")
        return there.value_of(name)


def _checked(study: _Resolver, name: str, given: Dimension, problems: list[str]) -> Dimension:
    """Return a domain with the values as their field has them; what the study refuses is added to ``problems``."""
    refused = {"model.name": _ARCHITECTURE, "at_most": "at_most is for parameters of defenses"}
    if why := refused.get("at_most" if given.at_most else name):
        problems.append(f"{name}: cannot be searched: {why}")
        return given
    problems += [f"{name}: grid value {v!r} is outside the range" for v in given.grid if not given.holds(v)]
    listed = given.choice or tuple(int(b) if given.int_ else b for b in given.bounds)
    taken: dict[Any, Any] = {}
    for value in dict.fromkeys((*listed, *given.grid)):
        try:
            taken[value] = as_text(study.value_of(name, from_text(value)))
        except SpecError as error:
            problems += [p if p.startswith(f"{name}:") else f"{name}: {p}" for p in error.problems]
    if given.float_ and any(isinstance(v, int) for v in taken.values()):
        problems.append(f"{name}: takes whole numbers; write int: instead of float:")
    choice = given.choice and tuple(dict.fromkeys(taken.get(v, v) for v in given.choice))
    return given.model_copy(update={"choice": choice, "grid": tuple(taken.get(v, v) for v in given.grid)})

"""A cell: everything that decides a trial's outcome except the parameters that are searched. Plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from tune_vfl.errors import SpecError
from tune_vfl.spec.study import SEARCHABLE, Named, Strict, Training, explain

Mode = Literal["split", "nosplit", "label_only"]
"""The architecture: both sides compute and a top model joins them; embeddings are summed into the logits; the label
party has labels only."""
ALL_MODES: frozenset[Mode] = frozenset({"split", "nosplit", "label_only"})


def is_ordinary(name: str) -> bool:
    """Return whether a trial's parameter is one of training or model, ``training.lr``; a defense's have no dot."""
    return "." in name


def qualified(name: str) -> str:
    """Return a trial's parameter with where it belongs: ``defense.scale``, ``training.lr``."""
    return name if is_ordinary(name) else f"defense.{name}"


def as_text(value: Any) -> Any:
    """Return a list as the JSON text that stands for it among a trial's parameters; anything else as it is."""
    return json.dumps(value) if isinstance(value, (list, tuple)) else value


def from_text(value: Any) -> Any:
    """Return the list that a text stands for; anything else as it is."""
    if not (isinstance(value, str) and value.startswith("[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:  # a text of its own, such as the name of a file
        return value


class Cell(Strict):
    """One (dataset, model, training, defense, attacks, seeds), resolved: every option is written out.

    Attributes:
        dataset, model, attacks: names with all their options.
        training: all fields.
        defense: its name.
        fixed: the defense's parameters that a search does not touch.
        seeds: the seeds of every trial.
        metric: the utility metric.
        num_classes: K.
        mode: derived from data and model.
        trial_minutes: a trial that takes longer ends as ``timeout``.
    """

    dataset: Named
    model: Named
    training: Training
    defense: str
    fixed: dict[str, Any] = Field(default_factory=dict)
    attacks: tuple[Named, ...]
    seeds: tuple[int, ...]
    metric: str
    num_classes: int
    mode: Mode
    trial_minutes: float | None = None

    def own(self, name: str) -> Any:
        """Return what an ordinary parameter is here: ``training.lr``. None where the architecture decides."""
        part, _, field = name.partition(".")
        return getattr(self.training, field) if part == "training" else self.model.options.get(field)

    def under(self, params: Mapping[str, Any]) -> tuple[Cell, dict[str, Any]]:
        """Return the cell that a trial trains, and the defense's parameters among the trial's.

        Without ordinary parameters that is this very cell. A model's options are checked where it is built.

        Raises:
            SpecError: when training does not take a value.
        """
        given = {name: from_text(value) for name, value in params.items()}
        found = {part: _within(part, given) for part in SEARCHABLE}
        changes: dict[str, Any] = {}
        if found["training"]:
            changes["training"] = self._trained(found["training"])
        if found["model"]:
            changes["model"] = self.model.model_copy(update=found["model"])
        cell = self.model_copy(update=changes) if changes else self
        return cell, {name: value for name, value in given.items() if not is_ordinary(name)}

    def _trained(self, changes: Mapping[str, Any]) -> Training:
        try:
            return Training.model_validate({**self.training.model_dump(), **changes})
        except ValidationError as error:
            raise SpecError([f"training.{p}" for p in explain(error, Training)]) from error


def _within(part: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{part}."): v for name, v in params.items() if name.startswith(f"{part}.")}


class References(Strict):
    """What a trial's attacks are compared with: measured once a model, the same for every setting of the defense.

    Attributes:
        r_lower: for each attack that needs no gradients, its success on an untrained bottom model, a value per seed.
    """

    r_lower: dict[str, list[float]] = Field(default_factory=dict)

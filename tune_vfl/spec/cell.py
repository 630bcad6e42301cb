"""A cell: everything that decides a trial's outcome except the searched parameters. Plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError

from tune_vfl.errors import SpecError
from tune_vfl.spec.bases import Strict
from tune_vfl.spec.explaining import explain
from tune_vfl.spec.federation import Federation
from tune_vfl.spec.study import SEARCHABLE, Named, Threat, Training

Mode = Literal["split", "nosplit", "label_only"]
"""How the parties' models are joined. ``split``: every party has a bottom model, and a top model reads what they send.
``nosplit``: there is no top model, the embeddings are summed into the logits. ``label_only``: the label party has
labels and a top model, but no features."""
ALL_MODES: frozenset[Mode] = frozenset({"split", "nosplit", "label_only"})

RowsUsed = Literal["all", "selection", "report"]
"""Which rows a cell trains and measures on. ``all``: every row. ``selection``: all but the reserve, as every search
does. ``report``: trained on the training rows of ``selection``, the utility measured on the reserve, as ``confirm``
does. A data set without a reserve has the same rows under each."""

MEASURE = 6
"""How studies measure today. Under 1 a search used every row; from 2 on it leaves the reserve alone; from 3 on
``default`` has an attack that reads all epochs together, ``gradient_em``; from 4 on that one goes on from its best
start after half of its rounds; from 5 on ``default`` has ``gradient_em_known`` too, where known labels decide; from 6
on all attacks on labels by one party are measured against one floor, see :class:`References`, and ``matched_filter``
stands in the place of these two."""

_CHANGED = {"default_features": 5, **dict.fromkeys(("matched_filter", "default", "thorough"), 6)}
"""The measure under which scores of an attack, or of a portfolio with it, changed last; of all others 2."""

UNDEFENDED_SEEDS = 10
"""The fewest seeds that a study trains the undefended model with."""


def is_measured_as_today(measure: int, attacks: Iterable[str]) -> bool:
    """Return whether scores of an earlier measure are what a run of today would find.

    Args:
        measure: the one under which they were measured.
        attacks: the attacks or portfolios that were scored, as a spec names them.
    """
    return measure >= max((_CHANGED.get(name, 2) for name in attacks), default=2)


def is_ordinary(name: str) -> bool:
    """Return whether a trial's parameter is ordinary: one of training or of the model, such as ``training.lr``.

    A parameter of the defense has no dot in its name.
    """
    return "." in name


def qualified(name: str) -> str:
    """Return the full name of a trial's parameter: ``defense.scale`` for ``scale``; ``training.lr`` stays."""
    return name if is_ordinary(name) else f"defense.{name}"


def as_text(value: Any) -> Any:
    """Return a list as JSON text, the format of a stored trial's parameters; other values unchanged."""
    return json.dumps(value) if isinstance(value, (list, tuple)) else value


def from_text(value: Any) -> Any:
    """Parse a list from JSON text, the inverse of :func:`as_text`; other values unchanged."""
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
        seeds: every trial trains once with each of them.
        metric: the utility metric.
        num_classes: K.
        mode: how the models are joined; it follows from the data set and the model.
        trial_minutes: a trial that takes longer ends as ``timeout``.
        federation: how the data lie; in the horizontal setting with the number of rounds.
        threat: what every attacker knows.
        spare: attacks that are left out of a setting in which the others have found nearly all.
        rows: which rows it trains and measures on.
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
    federation: Federation = Field(default_factory=Federation)
    threat: Threat = Field(default_factory=Threat)
    spare: tuple[str, ...] = ()
    rows: RowsUsed = "all"

    @property
    def setting(self) -> str:
        """The mode of the models, or the number of clients, in words."""
        federation = self.federation
        if not federation.horizontal:
            return self.mode
        return f"horizontal, {federation.clients} clients, {federation.rounds} rounds"

    @property
    def seeds_of_undefended(self) -> tuple[int, ...]:
        """Seeds of the undefended model: from 0 on, as many as the study has and at least ten.

        What a seed does to all settings alike is most of what utilities differ by, and only more seeds tell it.
        """
        return tuple(range(max(UNDEFENDED_SEEDS, len(self.seeds))))

    def value_of(self, name: str) -> Any:
        """Return the cell's value of an ordinary parameter, such as ``training.lr``.

        None for an option of the model that the cell does not give: then the architecture decides.
        """
        part, _, field = name.partition(".")
        return getattr(self.training, field) if part == "training" else self.model.options.get(field)

    def with_params(self, params: Mapping[str, Any]) -> tuple[Cell, dict[str, Any]]:
        """Return this cell with a trial's ordinary parameters applied, and the trial's parameters of the defense.

        A trial without ordinary parameters gets this very cell back. The options of a model are not checked here but
        where the model is built.

        Raises:
            SpecError: when training does not take a value.
        """
        given = {name: from_text(value) for name, value in params.items()}
        found = {part: _fields_of(part, given) for part in SEARCHABLE}
        changes: dict[str, Any] = {}
        if found["training"]:
            changes["training"] = self._training_with(found["training"])
        if found["model"]:
            changes["model"] = self.model.model_copy(update=found["model"])
        cell = self.model_copy(update=changes) if changes else self
        return cell, {name: value for name, value in given.items() if not is_ordinary(name)}

    def _training_with(self, changes: Mapping[str, Any]) -> Training:
        try:
            return Training.model_validate({**self.training.model_dump(), **changes})
        except ValidationError as error:
            raise SpecError([f"training.{p}" for p in explain(error, Training)]) from error


def _fields_of(part: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{part}."): v for name, v in params.items() if name.startswith(f"{part}.")}


class References(Strict):
    """Reference scores of a trial's attacks, measured once per model for all settings of the defense.

    Attributes:
        r_lower: by attack, or by ``ATTACK/PARTY`` with several passive parties, its success on untrained bottom models,
            one value a seed, those of the trials first; only for attacks that read a bottom model.
        noise: by the same names, by how much the success on one more untrained model differs from ``r_lower``, a
            standard deviation a seed; an attacker measured on a single model is left out.
        floors: by passive party, whose name is empty where it is the only one, and by way of guessing labels without
            any message, its success, one value a seed: attacks on untrained models, attacks on models that noise has
            moved, a model of the party's own columns. The best of them is the floor of all its attacks on labels.
        alone: the utility of the label party's own model, one value a seed; empty where it was not measured.
    """

    r_lower: dict[str, list[float]] = Field(default_factory=dict)
    noise: dict[str, list[float]] = Field(default_factory=dict)
    floors: dict[str, dict[str, list[float]]] = Field(default_factory=dict)
    alone: list[float] = Field(default_factory=list)

    @property
    def seeds(self) -> int:
        """The number of seeds with which they were measured; 0 where there was nothing to measure."""
        by_seed = [*self.r_lower.values(), *(ways for of in self.floors.values() for ways in of.values()), self.alone]
        return max(map(len, by_seed))

    def of(self, attacker: str, seeds: int) -> list[float] | None:
        """Return an attacker's R_lower at the first ``seeds`` seeds; None for an attacker without one."""
        lower = self.r_lower.get(attacker)
        return None if lower is None else lower[:seeds]

    @classmethod
    def joined(cls, parts: Sequence[References]) -> References:
        """Return the scores of several parts' seeds one after the other; those that every part has."""
        first = parts[0]
        return cls(
            r_lower=_joined([part.r_lower for part in parts]),
            noise=_joined([part.noise for part in parts]),
            floors={party: _joined([part.floors.get(party, {}) for part in parts]) for party in first.floors},
            alone=[value for part in parts for value in part.alone],
        )

    def at(self, place: int) -> References:
        """Return the scores of one seed, by its place; without those of the label party's own model."""
        return References(
            r_lower=_at(self.r_lower, place),
            noise=_at(self.noise, place),
            floors={party: _at(ways, place) for party, ways in self.floors.items()},
        )

    def of_party(self, party: str, seeds: int) -> dict[str, list[float]]:
        """Return a passive party's :attr:`floors` at the first ``seeds`` seeds; empty where none were measured."""
        return {way: found[:seeds] for way, found in self.floors.get(party, {}).items()}


def _joined(parts: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: [value for part in parts for value in part[name]] for name in shared}


def _at(scores: Mapping[str, list[float]], place: int) -> dict[str, list[float]]:
    return {name: [values[place]] for name, values in scores.items()}

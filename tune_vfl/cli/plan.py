"""From a spec file and settings to the studies to run: a matrix expanded, its impossible pairs set aside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.cli.options import checked
from tune_vfl.errors import SpecError
from tune_vfl.spec import Named, StudySpec, parse
from tune_vfl.spec.raw import expand, read_yaml

if TYPE_CHECKING:
    from tune_vfl.registry import Registry
    from tune_vfl.spaces.space import Space
    from tune_vfl.spec.cell import Cell


@dataclass(frozen=True)
class Planned:
    """One study that can be run: as the user gave it, resolved, and the space it searches."""

    spec: StudySpec
    cell: Cell
    space: Space


@dataclass(frozen=True)
class Skipped:
    """What a matrix asks for and cannot be: a whole study, or one attack of a study that is run without it."""

    study: str
    attack: str | None
    problems: list[str]

    def __str__(self) -> str:
        what = self.study if self.attack is None else f"attack {self.attack} in {self.study}"
        return f"{what}: {'; '.join(self.problems)}"


@dataclass(frozen=True)
class Plan:
    """What a spec asks for.

    Attributes:
        studies: the studies that can be run, in the order of the matrix.
        skipped: the impossible pairs of a matrix, and why.
    """

    studies: list[Planned]
    skipped: list[Skipped]


def read_plan(path: Path, settings: Sequence[str] = ()) -> Plan:
    """Read a spec file, lay settings over it, and plan it.

    Raises:
        SpecError: with every problem and the file; of a matrix only when names or parameters are wrong, or no pair is
            possible.
    """
    raw = read_yaml(path)
    try:
        return checked(raw, settings, plan)
    except SpecError as error:
        given = ("--set", str(path))
        raise SpecError([p if p.startswith(given) else f"{path}: {p}" for p in error.problems]) from error


def plan(raw: Mapping[str, Any]) -> Plan:
    """Plan a raw spec: see :func:`read_plan`."""
    expanded = expand(raw)
    if len(expanded) == 1 and "matrix" not in raw:
        return Plan([_resolved(parse(expanded[0]))], [])
    studies: list[Planned] = []
    skipped: list[Skipped] = []
    for spec in refuse_mistakes(expanded):
        possible, unfit = _fitting(spec)
        skipped += unfit
        if possible is not None:
            studies.append(possible)
    if not studies:
        raise SpecError([str(entry) for entry in skipped])
    return Plan(studies, skipped)


def _fitting(spec: StudySpec) -> tuple[Planned | None, list[Skipped]]:
    """Resolve a study of a matrix, without the attacks that do not go with its data set and model."""
    try:
        return _resolved(spec), []
    except SpecError as error:
        problems = error.problems
    fitting, unfit = [], []
    for attack in spec.attacks:
        try:
            _resolved(spec.model_copy(update={"attacks": (attack,)}))
            fitting.append(attack)
        except SpecError as error:
            unfit.append(Skipped(spec.study, attack.name, error.problems))
    if not fitting:  # what is wrong whichever attack is asked for tells why; the attacks' own reasons would hide it
        common = [p for p in problems if all(p in entry.problems for entry in unfit)]
        return None, [Skipped(spec.study, None, common or problems)]
    return _resolved(spec.model_copy(update={"attacks": tuple(fitting)})), unfit


def _resolved(spec: StudySpec) -> Planned:
    from tune_vfl.evaluation.resolving import resolve
    from tune_vfl.spaces.named import space_of

    cell = resolve(spec)
    return Planned(spec, cell, space_of(spec, cell))


def refuse_mistakes(raws: Sequence[Mapping[str, Any]]) -> list[StudySpec]:
    """Parse raw specs and refuse unknown names and wrong options; a mistake is not an impossible pair. Loads no data.

    Raises:
        SpecError: with the problems of all of them.
    """
    specs, problems = [], []
    for raw in raws:
        try:
            specs.append(parse(raw))
        except SpecError as error:
            problems += error.problems
    problems += [p for spec in specs for p in mistakes(spec)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return specs


def mistakes(spec: StudySpec) -> list[str]:
    """Return unknown names and wrong options of a spec, whatever its pairs can do together."""
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.data.base import DATASETS
    from tune_vfl.defenses.base import DEFENSES
    from tune_vfl.models.base import MODELS

    problems = _option_problems(DEFENSES, Named(name=spec.defense.name, **spec.defense.params), "defense.params")
    for attack in spec.attacks:
        problems += _option_problems(ATTACKS, attack, f"attacks.{attack.name}")
    problems += _option_problems(DATASETS, spec.dataset, "dataset", "Options", ("metric",))
    if spec.model.name is not None:
        problems += _option_problems(MODELS, Named(name=spec.model.name, **spec.model.options), "model", "Options")
    return problems


def _option_problems(
    registry: Registry[Any],
    named: Named,
    place: str,
    options: str = "Params",
    elsewhere: Sequence[str] = (),
) -> list[str]:
    from tune_vfl.spec import validated as options_of

    try:
        declared = getattr(registry[named.name], options)
        options_of(declared, {k: v for k, v in named.options.items() if k not in elsewhere}, place)
    except SpecError as error:
        return error.problems
    return []


def cost(planned: Planned) -> dict[str, Any]:
    """Return what a study costs, as the spec asks for it.

    Returns:
        ``trials``, ``seeds``, ``epochs`` (the most, where they are searched), ``trainings`` (networks trained, the
        undefended baseline included, and the runs of attacks that take part in the training), ``training_epochs``
        (trainings x epochs), ``space`` (parameter to range), ``space_size`` (None when it is not finite) and
        ``baseline`` (what the undefended model has of the training and the model where they are searched).
    """
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.spaces.recipe import own_values

    cell, trials = planned.cell, planned.spec.budget.trials
    size = None if math.isinf(planned.space.size) else int(planned.space.size)
    trials = trials if size is None else min(trials, size)
    acting = sum(ATTACKS[a.name].capabilities.acts for a in cell.attacks)
    searched = planned.space.params.get("training.epochs")
    epochs = cell.training.epochs if searched is None else searched.largest
    trainings = (trials + 1) * len(cell.seeds) * (1 + acting)
    return {
        "trials": trials,
        "seeds": len(cell.seeds),
        "epochs": epochs,
        "trainings": trainings,
        "training_epochs": trainings * epochs,
        "space": planned.space.model_dump(mode="json", by_alias=True, exclude_defaults=True).get("params", {}),
        "space_size": size,
        "baseline": own_values(cell, planned.space.ordinary),
    }

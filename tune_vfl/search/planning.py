"""From what somebody wrote to studies that can be run: parsed, resolved once, each with the space that it searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import SpecError, UnknownNameError
from tune_vfl.ledger.planned import PlannedStudy
from tune_vfl.spec import Named, StudySpec, parse
from tune_vfl.spec.listed import as_list
from tune_vfl.spec.raw import expand, read_yaml
from tune_vfl.spec.study import PORTFOLIOS

if TYPE_CHECKING:
    from tune_vfl.registry import Registry

SpecLike = PlannedStudy | StudySpec | Mapping[str, Any] | str | Path


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

    studies: list[PlannedStudy]
    skipped: list[Skipped]


def plan(raw: Mapping[str, Any]) -> Plan:
    """Plan a raw spec, its settings laid over it.

    Raises:
        SpecError: with every problem; of a matrix only when names or parameters are wrong, or no pair is possible.
    """
    expanded = expand(raw)
    if len(expanded) == 1 and "matrix" not in raw:
        return Plan([plan_study(read_study(expanded[0]))], [])
    studies: list[PlannedStudy] = []
    skipped: list[Skipped] = []
    for spec in refuse_mistakes(expanded):
        possible, unfit = _fitting(spec)
        skipped += unfit
        if possible is not None:
            studies.append(possible)
    if not studies:
        raise SpecError([str(entry) for entry in skipped])
    return Plan(studies, skipped)


def planned(spec: SpecLike) -> PlannedStudy:
    """Return the one study that is described, in whatever form; a planned one comes back as it is.

    Args:
        spec: a planned study, a spec, a mapping of the same form, or the path of a YAML file.

    Raises:
        SpecError: with every problem, or when it describes several studies.
    """
    if isinstance(spec, PlannedStudy):
        return spec
    if isinstance(spec, StudySpec):
        return plan_study(spec)
    expanded = expand(read_yaml(Path(spec)) if isinstance(spec, (str, Path)) else spec)
    if len(expanded) != 1:
        names = ", ".join(str(s.get("study")) for s in expanded)
        raise SpecError(f"the spec describes {len(expanded)} studies ({names}); search them one by one")
    return plan_study(read_study(expanded[0]))


def plan_study(spec: StudySpec) -> PlannedStudy:
    """Resolve a spec and find the space that it searches.

    Raises:
        SpecError: with every problem.
        DataError: when the data cannot be read.
    """
    from tune_vfl.evaluation.resolving import open_task
    from tune_vfl.samplers.base import unknown_sampler
    from tune_vfl.spaces.named import space_of, space_problems

    problems = unknown_sampler(spec.sampler.name)
    try:
        task = open_task(spec, rows="selection")
    except SpecError as error:
        problems = [*error.problems, *space_problems(spec), *problems]
        raise SpecError(list(dict.fromkeys(problems))) from error
    try:
        space = space_of(spec, task.cell, task.dataset)
    except SpecError as error:
        raise SpecError([*error.problems, *problems]) from error
    if problems:
        raise SpecError(problems)
    return PlannedStudy(spec, task.cell, space, data=task.dataset.fingerprint)


def read_study(raw: Mapping[str, Any]) -> StudySpec:
    """Parse one study.

    Raises:
        SpecError: with every problem, unknown names among them, also of a spec that cannot be parsed.
    """
    try:
        return parse(raw)
    except SpecError as error:
        raise SpecError(list(dict.fromkeys([*error.problems, *_unknown_names(raw)]))) from error


def _unknown_names(raw: Mapping[str, Any]) -> Iterator[str]:
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.data.base import DATASETS
    from tune_vfl.defenses.base import DEFENSES
    from tune_vfl.models.base import MODELS
    from tune_vfl.samplers.base import SAMPLERS

    attacks = as_list(raw.get("attacks"))
    singles = [a for a in (attacks if isinstance(attacks, list) else ()) if a not in PORTFOLIOS]
    asked: list[tuple[Registry[Any], Any]] = [(ATTACKS, a) for a in singles]
    asked += [(DATASETS, raw.get("dataset")), (MODELS, raw.get("model")), (DEFENSES, raw.get("defense"))]
    asked.append((SAMPLERS, raw.get("sampler")))
    for registry, entry in asked:
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if isinstance(name, str) and name not in registry:
            yield str(UnknownNameError(registry.kind, name, registry.names()))


def _fitting(spec: StudySpec) -> tuple[PlannedStudy | None, list[Skipped]]:
    """Plan a study of a matrix, without the attacks that do not go with its data set and model."""
    try:
        return plan_study(spec), []
    except SpecError as error:
        problems = error.problems
    fitting, unfit = [], []
    for attack in spec.attacks:
        try:
            plan_study(spec.model_copy(update={"attacks": (attack,)}))
            fitting.append(attack)
        except SpecError as error:
            unfit.append(Skipped(spec.study, attack.name, error.problems))
    if not fitting:  # the problems that come with every attack are the reason; those of single attacks would hide it
        common = [p for p in problems if all(p in entry.problems for entry in unfit)]
        return None, [Skipped(spec.study, None, common or problems)]
    return plan_study(spec.model_copy(update={"attacks": tuple(fitting)})), unfit


def refuse_mistakes(raws: Sequence[Mapping[str, Any]]) -> list[StudySpec]:
    """Parse raw specs and refuse unknown names and wrong options; a mistake is not an impossible pair. Loads no data.

    Raises:
        SpecError: with the problems of all of them.
    """
    specs, problems = [], []
    for raw in raws:
        try:
            specs.append(read_study(raw))
        except SpecError as error:
            problems += error.problems
    problems += [p for spec in specs for p in _mistakes(spec)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return specs


def _mistakes(spec: StudySpec) -> list[str]:
    """Return unknown names and wrong options of a spec, whatever its pairs can do together."""
    from tune_vfl.attacks.base import ATTACKS
    from tune_vfl.data.base import DATASETS
    from tune_vfl.defenses.base import DEFENSES
    from tune_vfl.models.base import MODELS
    from tune_vfl.samplers.base import unknown_sampler

    problems = _option_problems(DEFENSES, Named(name=spec.defense.name, **spec.defense.params), "defense.params")
    for attack in spec.attacks:
        if attack.name not in PORTFOLIOS:
            problems += _option_problems(ATTACKS, attack, f"attacks.{attack.name}")
    problems += _option_problems(DATASETS, spec.dataset, "dataset", "Options", ("metric",))
    if spec.model.name is not None:
        problems += _option_problems(MODELS, Named(name=spec.model.name, **spec.model.options), "model", "Options")
    return [*problems, *unknown_sampler(spec.sampler.name)]


def _option_problems(
    registry: Registry[Any],
    named: Named,
    place: str,
    options: str = "Params",
    elsewhere: Sequence[str] = (),
) -> list[str]:
    from tune_vfl.spec import validated

    try:
        declared = getattr(registry[named.name], options)
        validated(declared, {k: v for k, v in named.options.items() if k not in elsewhere}, place)
    except SpecError as error:
        return error.problems
    return []

"""Resolve a parsed spec to a task: look names up, complete options, check capabilities, report all problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tune_vfl.attacks.base import Attack, build_attack
from tune_vfl.data import load, written_out
from tune_vfl.data.base import Dataset
from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.misfits import misfits
from tune_vfl.evaluation.portfolios import expanded, is_portfolio, spare
from tune_vfl.evaluation.shortages import shortages
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import MODELS, Learner, ModelOptions, build_model
from tune_vfl.spec import Federation, ModelSpec, Named, RowsUsed, Strict, StudySpec, Training, validated
from tune_vfl.spec.cell import Cell, Mode


class _Problems(list[str]):
    """Collects problems, so that one reading of a spec reports all of them; ``unfit`` as an error's."""

    def __init__(self, problems: Iterable[str] = ()) -> None:
        super().__init__(problems)
        self.unfit: dict[str, Sequence[str]] = {}

    def attempt(self, what: Callable[[], Any]) -> Any:
        """Call a function; collect a SpecError's problems and return None."""
        try:
            return what()
        except SpecError as error:
            self.extend(error.problems)
            self.unfit |= error.unfit
            return None


def mode_of(dataset: Dataset, options: ModelOptions) -> Mode:
    """Return the mode of a cell, which follows from data and model."""
    if dataset.active is None:
        return "label_only"
    return "nosplit" if options.top == "none" else "split"


def resolve(spec: StudySpec, root: Path | None = None) -> Cell:
    """Complete and check a spec: the plain data of the task that :func:`open_task` returns."""
    return open_task(spec, root).cell


def open_task(
    spec: StudySpec, root: Path | None = None, dataset: Dataset | None = None, *, rows: RowsUsed = "all"
) -> Task:
    """Complete and check a spec. Values that are searched get the data set's own recipe.

    Args:
        spec: as parsed.
        root: the data root; None takes TUNE_VFL_DATA.
        dataset: the spec's, where it was loaded before; None loads it.
        rows: which rows the cell uses; a search leaves the reserve out.

    Raises:
        SpecError: with every unknown name, wrong option and impossible combination.
        DataError: when the data cannot be read.
    """
    problems = _Problems(_misplaced(spec))
    if problems:
        raise SpecError(problems)
    spec = in_its_federation(spec)
    defense_class, kind = problems.attempt(lambda: DEFENSES[spec.defense.name]), FEDERATIONS[spec.federation.name]
    known = [n for n in spec.attacks if problems.attempt(partial(_known, n))]
    named = problems.attempt(lambda: kind.laid_out(spec))
    dataset = dataset or (named and problems.attempt(lambda: load(named, root)))
    if dataset is None or named is None:
        raise SpecError(problems)
    architecture = problems.attempt(lambda: _architecture(spec, dataset, defense_class))
    if architecture is None or defense_class is None:
        raise SpecError(problems)
    model = Named(name=architecture.name, **architecture.options.model_dump(exclude_none=True))
    fixed = problems.attempt(
        lambda: defense_class.fitted_to(spec.defense.params, model=model, modality=dataset.modality)
    )
    federation, training = problems.attempt(lambda: kind.recipe(spec, dataset)) or (spec.federation, Training())
    cell = Cell(
        dataset=written_out(named, root),
        model=model,
        training=training,
        defense=spec.defense.name,
        fixed=fixed or spec.defense.params,
        attacks=(),
        seeds=tuple(range(spec.budget.seeds)),
        metric=dataset.metric,
        num_classes=dataset.num_classes,
        mode=mode_of(dataset, architecture.options),
        trial_minutes=spec.budget.trial_minutes,
        federation=federation,
        threat=spec.threat,
        rows=rows,
    )
    task = Task(cell, dataset, architecture, ())
    attacks = problems.attempt(lambda: expanded(known, task)) or []
    task = _attacked(task, attacks)
    task = replace(task, cell=task.cell.model_copy(update={"spare": spare(spec, attacks)}))
    others, unfit = misfits(task)
    problems.extend([*others, *(why for each in unfit.values() for why in each)])
    problems = problems or _Problems(shortages(task))
    if problems:
        raise SpecError(problems, problems.unfit | unfit)
    return task


def in_its_federation(spec: StudySpec) -> StudySpec:
    """Return a spec with the federation of its model, where it names a known model and no federation."""
    name = spec.model.name
    if name is None or name not in MODELS or "federation" in spec.model_fields_set:
        return spec
    return spec.model_copy(update={"federation": Federation(name=MODELS[name].brings)})


def _known(named: Named) -> bool:
    """Look an entry under ``attacks`` up."""
    return is_portfolio(named) or build_attack(named) is not None


def _attacked(task: Task, attacks: Iterable[Attack[Strict]]) -> Task:
    """Return the task with the attacks' options completed for its training."""
    fresh_noise = "gradients" in task.defense.capabilities.random
    settled = tuple(a.settled(epochs=task.cell.training.epochs, fresh_noise=fresh_noise) for a in attacks)
    named = tuple(Named(name=a.name, **a.params.model_dump()) for a in settled)
    return replace(task, cell=task.cell.model_copy(update={"attacks": named}), attacks=settled)


def _misplaced(spec: StudySpec) -> Iterable[str]:
    """Say why a domain cannot stand where it does."""
    attack = "it would change the attacker that settings are compared by; make a study of each"
    where = [
        ("dataset", spec.dataset.options, "it would change the task that settings are compared on; list data sets")
    ]
    where += [(f"attacks.{a.name}", a.options, attack) for a in spec.attacks]
    where += [("defense.params", spec.defense.params, "params fixes values; what is searched belongs to defense.space")]
    for place, options, why in where:
        for name, value in options.items():
            if isinstance(value, Mapping) and len({"float", "int", "choice"} & set(value)) == 1:
                yield f"{place}.{name}: a domain cannot stand here: {why}"


def _architecture(spec: StudySpec, dataset: Dataset, defense_class: type[Defense] | None) -> Learner[ModelOptions]:
    """The spec's model laid over the data set's own; another architecture starts from its own defaults."""
    asked, recipe = spec.model, dataset.recipe.model
    name = asked.name or recipe.name
    options = {**(recipe.options if name == recipe.name else {}), **asked.options}
    # Of a defense of another federation its head would hide that it is of another one.
    suits = defense_class is not None and spec.federation.name in defense_class.capabilities.federations
    needed = defense_class.capabilities.head if defense_class is not None and suits else "auto"
    if needed != "auto":
        if asked.options.get("head", needed) != needed:
            raise SpecError(
                f"model.head: defense {defense_class.name!r} needs {needed!r}, got {asked.options['head']!r}; leave it "  # type: ignore[union-attr]
                "out"
            )
        options["head"] = needed
    if options.get("top") == "none":
        outputs = MODELS[name](validated(MODELS[name].Options, options, f"model {name}")).outputs(dataset.num_classes)
        wanted = asked.options.get("embedding_dim", outputs)
        if wanted != outputs:
            raise SpecError(f"model.embedding_dim: without a top model it must be the {outputs} logits, got {wanted}")
        options.update(embedding_dim=outputs)
        options.setdefault("aggregation", "sum")
        if options["aggregation"] == "concat":
            raise SpecError("model.aggregation: without a top model embeddings are summed or averaged, got 'concat'")
    return _with_its_width(build_model(Named(name=name, **options)), asked, dataset)


def _with_its_width(architecture: Learner[ModelOptions], asked: ModelSpec, dataset: Dataset) -> Learner[ModelOptions]:
    """Return an architecture that sends feature maps with their width, which follows from the data, as its option."""
    if architecture.joins or dataset.modality not in architecture.modalities:
        return architecture
    width = architecture.width(dataset.passive[0].shape, dataset.num_classes)
    if asked.options.get("embedding_dim", width) != width:
        raise SpecError(
            f"model.embedding_dim: a bottom model that sends feature maps sends {width} numbers of these rows, got "
            f"{asked.options['embedding_dim']}; leave it out"
        )
    options = {**architecture.options.model_dump(exclude_none=True), "embedding_dim": width}
    return build_model(Named(name=architecture.name, **options))

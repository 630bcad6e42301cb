"""From a parsed spec to a task: names looked up, options completed, capabilities checked, all problems said at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tune_vfl.attacks.base import Attack, build_attack
from tune_vfl.data import load, written_out
from tune_vfl.data.base import Dataset
from tune_vfl.defenses.base import DEFENSES, Defense, defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import MODELS, Architecture, ModelOptions, build_architecture
from tune_vfl.spec import ModelSpec, Named, Strict, StudySpec, validated
from tune_vfl.spec.cell import Cell, Mode


class _Problems(list[str]):
    """Collects problems, so that one reading of a spec reports all of them."""

    def attempt(self, what: Callable[[], Any]) -> Any:
        """Run; file a SpecError's problems and return None."""
        try:
            return what()
        except SpecError as error:
            self.extend(error.problems)
            return None


def mode_of(dataset: Dataset, options: ModelOptions) -> Mode:
    """Return the architecture of a cell: derived from data and model, never asked."""
    if dataset.active is None:
        return "label_only"
    return "nosplit" if options.top == "none" else "split"


def resolve(spec: StudySpec, root: Path | None = None) -> Cell:
    """Complete and check a spec, see :func:`open_task`, of whose task this is the plain data."""
    return open_task(spec, root).cell


def open_task(spec: StudySpec, root: Path | None = None, dataset: Dataset | None = None) -> Task:
    """Complete and check a spec. Where a domain stands for a value, the data set's own recipe is taken.

    Args:
        spec: as parsed.
        root: the data root; None takes TUNE_VFL_DATA.
        dataset: the spec's, where it was loaded before; None loads it.

    Raises:
        SpecError: with every unknown name, wrong option and impossible combination.
        DataError: when the data cannot be read.
    """
    problems = _Problems(_misplaced(spec))
    if problems:
        raise SpecError(problems)
    defense_class = problems.attempt(lambda: DEFENSES[spec.defense.name])
    attempted = [problems.attempt(partial(build_attack, named)) for named in spec.attacks]
    attacks: list[Attack[Strict]] = [a for a in attempted if a is not None]
    dataset = dataset or problems.attempt(lambda: load(spec.dataset, root))
    if dataset is None:
        raise SpecError(problems)
    training = spec.training.over(dataset.recipe.training)
    architecture = problems.attempt(lambda: _architecture(spec.model, dataset, defense_class))
    if architecture is None or defense_class is None:
        raise SpecError(problems)
    mode = mode_of(dataset, architecture.options)
    problems.extend(_model_problems(architecture, dataset))
    problems.extend(_defense_problems(defense_class, spec, dataset, mode))
    problems.extend(_joining_problems(defense_class, architecture.options, dataset))
    for attack in attacks:
        problems.extend(_attack_problems(attack, dataset, mode, architecture.options))
        problems.extend(_loss_problems(attack, defense_class))
        problems.extend(attack.training_problems(training))
    if problems:
        raise SpecError(problems)
    cell = Cell(
        dataset=written_out(spec.dataset, root),
        model=Named(name=architecture.name, **architecture.options.model_dump(exclude_none=True)),
        training=training,
        defense=spec.defense.name,
        fixed=spec.defense.params,
        attacks=tuple(Named(name=a.name, **a.params.model_dump()) for a in attacks),
        seeds=tuple(range(spec.budget.seeds)),
        metric=dataset.metric,
        num_classes=dataset.num_classes,
        mode=mode,
        trial_minutes=spec.budget.trial_minutes,
    )
    return Task(cell, dataset, architecture, tuple(attacks))


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


def _architecture(
    asked: ModelSpec, dataset: Dataset, defense_class: type[Defense] | None
) -> Architecture[ModelOptions]:
    """The spec's model laid over the data set's own; another architecture starts from its own defaults."""
    recipe = dataset.recipe.model
    name = asked.name or recipe.name
    options = {**(recipe.options if name == recipe.name else {}), **asked.options}
    needed = "auto" if defense_class is None else defense_class.capabilities.head
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
    return build_architecture(Named(name=name, **options))


def _model_problems(architecture: Architecture[ModelOptions], dataset: Dataset) -> Iterable[str]:
    if dataset.modality not in architecture.modalities:
        reads = _words(architecture.modalities)
        yield f"model {architecture.name!r} reads {reads} data, dataset {dataset.name!r} holds {dataset.modality}s"
    if architecture.binary_logit and dataset.num_classes != 2:
        classes = dataset.num_classes
        yield f"model {architecture.name!r} is for binary targets, dataset {dataset.name!r} has {classes} classes"


def _defense_problems(cls: type[Defense], spec: StudySpec, dataset: Dataset, mode: Mode) -> Iterable[str]:
    capabilities = cls.capabilities
    if capabilities.classes == "binary" and dataset.num_classes != 2:
        yield f"defense {cls.name!r} is defined for two classes, dataset {dataset.name!r} has {dataset.num_classes}"
    if mode not in capabilities.modes:
        yield f"defense {cls.name!r} is defined for {_words(capabilities.modes)}; this data and model make it {mode}"
    if dataset.modality not in capabilities.modalities:
        modalities = _words(capabilities.modalities)
        yield f"defense {cls.name!r} is defined for {modalities} data, {dataset.name!r} holds {dataset.modality}s"
    try:
        params = defense_params(cls.name, spec.defense.params, num_classes=dataset.num_classes)
    except SpecError as error:
        yield from error.problems
        return
    yield from cls.problems(params, num_classes=dataset.num_classes, mode=mode)


def _joining_problems(cls: type[Defense], options: ModelOptions, dataset: Dataset) -> Iterable[str]:
    parties = len(dataset.passive) + (dataset.active is not None)
    if cls.capabilities.needs_concat and options.top != "none" and options.aggregation != "concat" and parties > 1:
        yield (
            f"defense {cls.name!r} works on each party's part of the joined embedding, which model.aggregation="
            f"{options.aggregation} does not keep apart; use concat"
        )


def _attack_problems(attack: Attack[Strict], dataset: Dataset, mode: Mode, options: ModelOptions) -> Iterable[str]:
    capabilities = attack.capabilities
    if capabilities.classes == "binary" and dataset.num_classes != 2:
        yield f"attack {attack.name!r} is defined for two classes, dataset {dataset.name!r} has {dataset.num_classes}"
    if capabilities.goal == "features" and dataset.modality == "text":
        yield f"attack {attack.name!r} reconstructs numbers, dataset {dataset.name!r} holds tokens of texts"
    if mode not in capabilities.modes:
        why = f"attack {attack.name!r} is defined for {_words(capabilities.modes)}; this data and model make it {mode}"
        yield why + ("; model.top=none makes it nosplit" if mode == "split" and "nosplit" in capabilities.modes else "")
    elif capabilities.needs_concat and options.aggregation != "concat":
        yield (
            f"attack {attack.name!r} sends columns beside its embedding, which model.aggregation={options.aggregation} "
            "leaves no room for; use concat"
        )
    yield from attack.problems(attack.params, num_classes=dataset.num_classes, mode=mode)


def _loss_problems(attack: Attack[Strict], cls: type[Defense]) -> Iterable[str]:
    if attack.capabilities.needs_logits and cls.capabilities.head == "scalar":
        yield (
            f"attack {attack.name!r} takes the outputs for class logits under a cross-entropy, defense {cls.name!r} "
            "trains one number on a loss of its own"
        )


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))

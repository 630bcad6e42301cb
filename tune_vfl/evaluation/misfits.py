"""Compatibility checks: combinations of data set, model, defense and attacks that cannot be evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import DEFENSES, defense_params, grants_missing
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import MODELS
from tune_vfl.outcome import TOGETHER
from tune_vfl.spec import Cell, Strict

_OF_THE_BOTTOM = frozenset({"known_bottom", "open_bottom", "client_model"})
"""Grants that hold something of a client's bottom model."""
_OF_ONE_CLIENT = frozenset({"client_gradients", "top_gradients"})
"""Grants that hold something that a single client uploaded."""
_OF_THE_TOP = frozenset({"shared_part"})
"""Grants that hold something of the top model."""


def misfits(task: Task) -> tuple[list[str], dict[str, list[str]]]:
    """Return reasons why a task cannot be evaluated, and by name reasons why attacks cannot run on it.

    Of a defense of the other federation that is all there is to say.
    """
    federation, can = task.cell.federation.name, task.defense.capabilities
    if federation not in can.federations:
        known = _words(cls.name for cls in DEFENSES.classes() if federation in cls.capabilities.federations)
        return [f"defense {task.defense.name!r} is not for a {federation} federation; those that are: {known}"], {}
    parts = (_of_the_federation, _of_the_model, _of_the_defense, _of_the_parties)
    unfit = {attack.name: list(misfits_of(attack, task)) for attack in task.attacks}
    return [p for part in parts for p in part(task)], {name: why for name, why in unfit.items() if why}


def _of_the_federation(task: Task) -> Iterator[str]:
    federation = task.cell.federation
    if federation.name not in task.architecture.federations:
        able = _words(cls.name for cls in MODELS.classes() if federation.name in cls.federations)
        yield f"model {task.architecture.name!r} is not for a {federation.name} federation; those that are: {able}"
    yield from FEDERATIONS[federation.name].problems(task)


def _of_the_model(task: Task) -> Iterator[str]:
    architecture, dataset = task.architecture, task.dataset
    if dataset.modality not in architecture.modalities:
        reads = _words(architecture.modalities)
        yield f"model {architecture.name!r} reads {reads} data, dataset {dataset.name!r} holds {dataset.modality}s"
    if architecture.binary_logit and dataset.num_classes != 2:
        classes = dataset.num_classes
        yield f"model {architecture.name!r} is for binary targets, dataset {dataset.name!r} has {classes} classes"
    if not architecture.joins and len(dataset.parties) > 1:
        yield (
            f"model {architecture.name!r}: cut like this its top model reads the feature maps of one party, and "
            f"{len(dataset.parties)} have columns; give dataset.split 1, or leave out model.cut or take another model"
        )


def _of_the_defense(task: Task) -> Iterator[str]:
    cls, cell, dataset, options = task.defense, task.cell, task.dataset, task.architecture.options
    can = cls.capabilities
    if can.classes == "binary" and dataset.num_classes != 2:
        yield f"defense {cls.name!r} is defined for two classes, dataset {dataset.name!r} has {dataset.num_classes}"
    if cell.mode not in can.modes:
        yield f"defense {cls.name!r} is defined for {_words(can.modes)}; this data and model make it {cell.mode}"
    if dataset.modality not in can.modalities:
        modalities = _words(can.modalities)
        yield f"defense {cls.name!r} is defined for {modalities} data, {dataset.name!r} holds {dataset.modality}s"
    try:
        params = defense_params(cls.name, cell.fixed, num_classes=dataset.num_classes)
        yield from cls.problems(params, num_classes=dataset.num_classes, mode=cell.mode)
    except SpecError as error:
        yield from error.problems
    parties = len(dataset.passive) + (dataset.active is not None)
    if can.needs_concat and options.top != "none" and options.aggregation != "concat" and parties > 1:
        yield (
            f"defense {cls.name!r} works on each party's part of the joined embedding, which model.aggregation="
            f"{options.aggregation} does not keep apart; use concat"
        )


def _of_the_parties(task: Task) -> Iterator[str]:
    if task.cell.threat.parties == TOGETHER and any(c.party == TOGETHER for c in task.dataset.passive):
        yield f"threat.parties: {TOGETHER} is what all passive parties as one are called; give that party another name"


def out_of_reach(cell: Cell) -> Iterator[tuple[frozenset[str], str]]:
    """Yield the grants that a server lacks in a horizontal federation, with reasons."""
    if DEFENSES[cell.defense].capabilities.client_bottom == "hidden":
        yield _OF_THE_BOTTOM, f"under {cell.defense} no bottom model reaches the server"
    if cell.model.options.get("top") == "none":
        yield _OF_THE_TOP, "without a top model nothing is shared but the bottom model"
    if cell.federation.secure:
        yield _OF_ONE_CLIENT, "with federation.secure no client's own update reaches the server"


def misfits_of(attack: Attack[Strict], task: Task) -> Iterator[str]:
    """Yield reasons why an attack cannot run on a task, one sentence each."""
    needs, cell, dataset, options = attack.capabilities, task.cell, task.dataset, task.architecture.options
    if cell.federation.name not in needs.federations:
        yield f"attack {attack.name!r} is not for a {cell.federation.name} federation"
        return
    beyond = [(attack.sees() & grants, why) for grants, why in out_of_reach(cell)]
    yield from (f"attack {attack.name!r} reads {_words(reads)}, and {why}" for reads, why in beyond if reads)
    if needs.classes == "binary" and dataset.num_classes != 2:
        yield f"attack {attack.name!r} is defined for two classes, dataset {dataset.name!r} has {dataset.num_classes}"
    if needs.goal == "features" and dataset.modality == "text":
        yield f"attack {attack.name!r} reconstructs numbers, dataset {dataset.name!r} holds tokens of texts"
    if cell.mode not in needs.modes:
        why = f"attack {attack.name!r} is defined for {_words(needs.modes)}; this data and model make it {cell.mode}"
        hint = cell.mode == "split" and "nosplit" in needs.modes
        yield why + ("; model.top=none makes it nosplit" if hint else "")
    elif needs.needs_concat and options.aggregation != "concat":
        yield (
            f"attack {attack.name!r} sends columns beside its embedding, which model.aggregation={options.aggregation} "
            "leaves no room for; use concat"
        )
    elif needs.needs_concat and not task.architecture.joins:
        yield f"attack {attack.name!r} sends columns beside its embedding, and the top model reads feature maps alone"
    if missing := grants_missing(attack.sees(), cell.defense):
        known = _words(name for name in DEFENSES if not grants_missing(missing, name))
        yield f"attack {attack.name!r} reads {_words(missing)}, which only {known} bring along, not {cell.defense}"
    yield from attack.problems(attack.params, num_classes=dataset.num_classes, mode=cell.mode)
    yield from attack.model_problems(options, others=len(dataset.parties) - 1, num_classes=dataset.num_classes)
    if needs.needs_logits and task.defense.capabilities.head == "scalar":
        yield (
            f"attack {attack.name!r} takes the outputs for class logits under a cross-entropy, defense "
            f"{task.defense.name!r} trains one number on a loss of its own"
        )
    yield from attack.training_problems(cell.training)


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))

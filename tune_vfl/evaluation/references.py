"""Reference scores: what attacks reach where no message says anything, to which their successes are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from tune_vfl.attacks.base import Attack, build_attack
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import DataError
from tune_vfl.evaluation.columns_alone import ColumnsAlone
from tune_vfl.evaluation.drifting import drifted
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.measuring import score_attack
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.seats import named_seats, seats_of
from tune_vfl.evaluation.summarizing import best_of, standing
from tune_vfl.evaluation.table import Table, joined, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import untrained
from tune_vfl.outcome import UNTRAINED, attacker_name
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell, References, Strict
from tune_vfl.statistics.arrays import Floats


def references_of(task: Task, *, device: str = "cpu") -> References:
    """Measure by seed what attacks reach where no message says anything.

    R_lower: each attack that reads a bottom model, by each party, on untrained models. What else it is granted of a
    training is replaced by what stands in for one that never was, noise for gradients. A few labeled rows on one
    untrained model are a noisy floor, and its noise would count as leakage; so each seed's is a mean over the attack's
    ``starts``, each with one of the draws over which the attack is scored. An attack that reads the label party's own
    columns is measured without what was sent: no model takes part, so once.

    Floors: R_lower of the attacks on labels; the same of models that noise has moved, half as many, since they
    differ less; and a model of the party's own columns, whether or not an attack has one.

    Args:
        task: to measure.
        device: where models are moved by noise.
    """
    lower: dict[str, list[float]] = {}
    noise: dict[str, list[float]] = {}
    floors: dict[str, dict[str, list[float]]] = {}
    readers = []
    for attack in task.attacks:
        if not (starts := _starts(attack, task)) or not all(keeper.stands_in() for keeper in keepers_for([attack])):
            continue
        found = _without_messages(task, {attack: starts}, untrained)
        for name, of_models in found.items():
            lower[name] = of_models.mean(0).tolist()
            if starts > 1 and reads_model(attack):  # the deviation of one model and that of the mean of so many others
                noise[name] = (of_models.std(0, ddof=1) * math.sqrt(1 + 1 / starts)).tolist()
        if could_do_alone(attack):
            readers.append(attack)
            _add(floors, attack, task, found, f" {UNTRAINED}")
    numbers = all(columns.x.is_floating_point() for columns in task.dataset.passive)
    if numbers and any(map(could_do_alone, task.attacks)):
        alone = ColumnsAlone(task.attacks)
        # Fewer rows than labels: no attack of the study knows any, or it would be refused.
        with suppress(DataError):
            _add(floors, alone, task, _without_messages(task, {alone: alone.draws}, untrained))
    moving = [attack for attack in readers if reads_model(attack) and not attack.capabilities.acts]
    watching = {attack: max(1, attack.starts // 2) for attack in moving}
    if watching:
        moved = _without_messages(task, watching, partial(drifted, device=device))
        for attack in watching:
            _add(floors, attack, task, moved, f" {MOVED}")
    return References(r_lower=lower, noise=noise, floors=floors)


MOVED = "on a model moved by noise"
"""Said behind an attack's name, as :data:`UNTRAINED` is."""


def could_do_alone(attack: Attack[Strict]) -> bool:
    """Return whether what an attack reaches without messages is what its passive party knows of labels anyway."""
    can = attack.capabilities
    return can.goal == "labels" and can.who == "passive" and not can.oracle


def _add(
    floors: dict[str, dict[str, list[float]]],
    attack: Attack[Strict],
    task: Task,
    found: Mapping[str, Floats],
    how: str = "",
) -> None:
    """Add an attack's success, a mean over models, to the floors of each party that carries it out."""
    for party in seats_of(attack, task):
        successes = found[attacker_name(attack.name, party)].mean(0)
        floors.setdefault(party, {})[attack.name + how] = successes.tolist()


def reads_without_messages(attack: Attack[Strict]) -> bool:
    """Return whether an attack finds something where no message says anything: in a bottom model or in columns."""
    return bool(attack.sees() & {"bottom", "features", "own_features"})


def reads_model(attack: Attack[Strict]) -> bool:
    """Return whether an attack reads a bottom model, which differs from one untrained one to the next."""
    return "bottom" in attack.sees()


def _starts(attack: Attack[Strict], task: Task) -> int:
    """Return the number of untrained models to measure an attack on; 0 for an attack that needs a training.

    An attack that reads its own columns, and no model, is measured once for each of its draws of known rows.
    """
    if not reads_without_messages(attack):
        return 0
    if reads_model(attack):
        return attack.starts
    return attack.draws if "features" in attack.sees() else int(task.dataset.active is not None)


def _without_messages(task: Task, starts: Mapping[Attack[Strict], int], model: Callable[..., Run]) -> dict[str, Floats]:
    """Return the success ``(starts, seeds)`` of each attacker on models that no message has taught.

    Args:
        task: to attack.
        starts: models a seed, of each attack that reads such models.
        model: :func:`untrained` or :func:`drifted`.
    """
    seeds = task.cell.seeds
    packs = [Pack(seeds, 1)] if task.architecture.stackable else [Pack((s,), None) for s in seeds]
    tables: dict[str, list[Table]] = {attack.name: [] for attack in starts}
    for start in range(max(starts.values())):
        due = [attack for attack in starts if start < starts[attack]]
        for pack in packs:
            run = model(task, pack, due, start)
            for attack in due:
                tables[attack.name].append(score_attack(attack, run, [start % attack.draws]))
    found: dict[str, Floats] = {}
    for attack in starts:
        scores = joined(tables[attack.name])
        for name in named_seats(attack, task):
            successes = best_of(standing(attack, variants_of(scores, name)))[1]["success"]
            found[name] = np.reshape(successes, (starts[attack], -1))
    return found


def measure_references(cell: Cell) -> References:
    """Open a cell's task and measure its :func:`references_of`."""
    return references_of(Task.open(cell))


def without_defense(cell: Cell) -> Cell:
    """Return a cell's evaluation settings without its defense, and with the head that a model without it has."""
    changes: dict[str, Any] = {"defense": "none", "fixed": {}}
    if DEFENSES[cell.defense].capabilities.head == "scalar":
        changes["model"] = cell.model.model_copy(update={"head": "auto"})
    return cell.model_copy(update=changes)


def key_of_references(cell: Cell) -> str:
    """Return a key of all that a cell's references depend on, but for its seeds and its data.

    That is the cell without its defense, and of its attacks those that read something else than messages. An attack
    that reads messages alone, as ``grad_cluster`` does, only has a say in whether own columns are measured, and to how
    many labels they are fitted.
    """
    attacks = [build_attack(named) for named in cell.attacks]
    readers = tuple(named for named, a in zip(cell.attacks, attacks, strict=True) if reads_without_messages(a))
    alone = ColumnsAlone(attacks).auxiliary_request() if any(map(could_do_alone, attacks)) else None
    same = {"attacks": readers, "trial_minutes": None, "seeds": (), "spare": ()}
    return f"{without_defense(cell).model_copy(update=same).model_dump_json()} {alone}"


_KNOWN: dict[tuple[str, tuple[int, ...], str], References] = {}


def references_once(task: Task, *, device: str = "cpu") -> References:
    """Return :func:`references_of`, measured once a process for tasks with the same ones."""
    key = task.dataset.fingerprint, task.cell.seeds, key_of_references(task.cell)
    if key not in _KNOWN:
        _KNOWN[key] = references_of(task, device=device)
    return _KNOWN[key]

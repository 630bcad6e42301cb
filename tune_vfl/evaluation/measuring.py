"""Run attacks on their views of a training and score their answers, one table row per member of the pack."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.errors import DataError
from tune_vfl.evaluation.columns_alone import ColumnsAlone
from tune_vfl.evaluation.drifting import drifted
from tune_vfl.evaluation.federated import train
from tune_vfl.evaluation.grants.base import keepers_for, view_of
from tune_vfl.evaluation.permuting import on_permuted_labels
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import guess_success, score_answer, score_reconstruction
from tune_vfl.evaluation.seats import named_seats, seats_of
from tune_vfl.evaluation.summarizing import best_of, over_draws, standing
from tune_vfl.evaluation.table import Numbers, Table, below, joined, put, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, untrained
from tune_vfl.outcome import UNTRAINED, attacker_name
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell, References, Strict
from tune_vfl.statistics.arrays import Floats

NotNeeded = Callable[[Attack[Strict], Table], Sequence[str]]
"""Says of each member why an attack is not needed after those whose scores a table holds; ``""`` where it is."""


def all_needed(attack: Attack[Strict], table: Table) -> Sequence[str]:
    """Say that an attack is needed by every member."""
    return [""] * len(table["lost",])


def measure_pack(
    task: Task,
    params: Sequence[Strict],
    pack: Pack,
    *,
    deadline: float | None,
    device: str,
    not_needed: NotNeeded = all_needed,
) -> Table:
    """Train a pack and measure all members: once for all watching attacks, and once more for each acting one.

    Args:
        task: the task to evaluate.
        params: one set of defense parameters per trial, of equal structure.
        pack: the members of the training.
        deadline: ``time.monotonic()`` at which training stops with a TimeoutError.
        device: where the network is trained.
        not_needed: which of the watching attacks may be left out.
    """
    run = train(task, params, pack, task.watching, deadline=deadline, device=device)
    table = measured(run, task.watching, not_needed)
    for attack in task.acting:
        if not all(table["lost",]):
            run = train(task, params, pack, [attack], deadline=deadline, device=device)
            add_acted(table, attack, measured(run, [attack]))
    return table


def measured(run: Run, attacks: Sequence[Attack[Strict]], not_needed: NotNeeded = all_needed) -> Table:
    """Return the table of a training with its attacks' scores; a diverged pack is not attacked.

    Args:
        run: the training.
        attacks: those that read it; dear ones come last.
        not_needed: which of them may be left out, by what those before them found.
    """
    table = dict(run.table)
    if all(table["lost",]):
        return table
    start, members = time.perf_counter(), len(table["lost",])
    for attack in sorted(attacks, key=lambda attack: attack.dear):
        why = not_needed(attack, table)
        if any(why):
            table.update(_of_some(attack, run, [m for m in range(members) if not why[m]]))
            put(table, ("not_needed",), {attack.name: list(why)})
        else:
            table.update(score_attack(attack, run))
    put(table, ("seconds",), {"attack": [(time.perf_counter() - start) / members] * members})
    return table


def _of_some(attack: Attack[Strict], run: Run, members: Sequence[int]) -> Table:
    """Return the scores of an attack on some members of a pack; other rows are not numbers."""
    scored = joined([score_attack(attack, run.member(m)) for m in members])
    places = {m: place for place, m in enumerate(members)}
    rows = range(len(run.table["lost",]))
    return {key: [values[places[m]] if m in places else math.nan for m in rows] for key, values in scored.items()}


def add_acted(table: Table, attack: Attack[Strict], acted: Table) -> None:
    """Add the measurements of the training that an acting attack took part in.

    Utility, notes and what the defense logged stay those of the training without it; the utility under attack
    stands beside the attack's success. A member that the attack drove out of bounds is lost: that is no privacy.
    """
    under = f"training under attack {attack.name!r}"
    table["lost",] = [mine or (under if its else "") for mine, its in zip(table["lost",], acted["lost",], strict=True)]
    for stage, spent in below(acted, "seconds").items():
        before = table.get(("seconds", stage), [0.0] * len(spent))
        table["seconds", stage] = [a + b for a, b in zip(before, spent, strict=True)]
    for name in {key[1]: None for key in acted if key[0] == "attack"}:
        for variant, columns in variants_of(acted, name).items():
            put(table, ("attack", name, variant), {**columns, "utility": acted["utility",]})
    table.update({key: rows for key, rows in acted.items() if key[0] == "permuted"})


def score_attack(attack: Attack[Strict], run: Run, draws: Sequence[int] = ()) -> Table:
    """Run an attack on the view of each party that carries it out and score each variant on every member.

    Args:
        attack: the attack to run.
        run: a training, or an untrained model.
        draws: number of draws of known rows and random numbers, over which the success is a mean; None: its own.
    """
    if run.pack.trials is not None and not attack.capabilities.stackable:
        return joined([score_attack(attack, run.member(m), draws) for m in range(run.pack.lead[0])])
    table: Table = {}
    for name, parties in named_seats(attack, run.task).items():
        seen = run.seen_by(parties)
        found: list[dict[str, Numbers]] = []
        for draw in draws or range(attack.draws):
            answers = dict(attack.run(view_of(attack, seen.with_draw(draw))))
            if found and attack.choice in answers:  # of the first draw alone the others are shown too
                answers = {attack.choice: answers[attack.choice]}
            found.append({variant: _scored(answer, seen) for variant, answer in answers.items()})
            if run.table and draw == 0:  # untrained models are a floor, and are not tested
                put(table, ("permuted", name), _permuted(answers, seen))
        for variant, columns in over_draws(attack, found).items():
            put(table, ("attack", name, variant), columns)
    return table


def _permuted(answers: Mapping[str, Answer | Reconstruction], run: Run) -> dict[str, list[list[float]]]:
    """Return the success of one draw's answers on permuted labels.

    Beside a mean over several draws, which scatters less, that makes a p-value rather too large than too small.
    """
    return {v: on_permuted_labels(a, *_truth(run)) for v, a in answers.items() if isinstance(a, Answer)}


def _scored(answer: Answer | Reconstruction, run: Run) -> Numbers:
    if isinstance(answer, Reconstruction):
        return score_reconstruction(answer, run.x_train, run.y_train)
    y_train, num_classes, seeds = _truth(run)
    return score_answer(answer, y_train, run.y_test, num_classes, seeds)


def _truth(run: Run) -> tuple[Tensor, int, Sequence[int]]:
    return run.y_train, run.task.dataset.num_classes, run.pack.seed_of_each


def guess_of(task: Task) -> float:
    """Return the success of the best constant guess on the training labels."""
    return guess_success(split_of(task, Pack(task.cell.seeds, 1)).y_train, task.cell.num_classes)


def rarest_in_test(task: Task) -> int:
    """Return the number of test rows of the rarest class, and the seed with the fewest."""
    rows = split_of(task, Pack(task.cell.seeds, 1)).y_test
    return int(torch.stack([(rows == k).sum(-1) for k in range(task.dataset.num_classes)]).min())


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
            if starts > 1:  # the deviation of one model and that of the mean of so many others
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
    watching = {attack: max(1, attack.starts // 2) for attack in readers if not attack.capabilities.acts}
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
    return bool(attack.sees() & {"bottom", "own_features"})


def _starts(attack: Attack[Strict], task: Task) -> int:
    """Return the number of untrained models to measure an attack on; 0 for an attack that needs a training."""
    if not reads_without_messages(attack):
        return 0
    return attack.starts if "bottom" in attack.sees() else int(task.dataset.active is not None)


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


_KNOWN_REFERENCES: dict[tuple[str, str], References] = {}


def references_once(task: Task, *, device: str = "cpu") -> References:
    """Return :func:`references_of`, measured once a process for tasks that differ in the defense only."""
    same: dict[str, Any] = {"defense": "none", "fixed": {}, "trial_minutes": None}
    key = task.dataset.fingerprint, task.cell.model_copy(update=same).model_dump_json()
    if key not in _KNOWN_REFERENCES:
        _KNOWN_REFERENCES[key] = references_of(task, device=device)
    return _KNOWN_REFERENCES[key]

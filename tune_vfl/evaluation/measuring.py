"""Run attacks on their views of a training and score their answers, one table row per member of the pack."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.federated import train
from tune_vfl.evaluation.grants.base import keepers_for, view_of
from tune_vfl.evaluation.permuting import on_permuted_labels
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import guess_success, score_answer, score_reconstruction
from tune_vfl.evaluation.seats import named_seats
from tune_vfl.evaluation.summarizing import best_of, over_draws, standing
from tune_vfl.evaluation.table import Numbers, Table, below, joined, put, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, untrained
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell, References, Strict, Training

STARTS = 5
"""Untrained models a seed whose mean is R_lower."""


def measure_pack(task: Task, params: Sequence[Strict], pack: Pack, *, deadline: float | None, device: str) -> Table:
    """Train a pack and measure all members: once for all watching attacks, and once more for each acting one.

    Args:
        task: the task to evaluate.
        params: one set of defense parameters per trial, of equal structure.
        pack: the members of the training.
        deadline: ``time.monotonic()`` at which training stops with a TimeoutError.
        device: where the network is trained.
    """
    table = measured(train(task, params, pack, task.watching, deadline=deadline, device=device), task.watching)
    for attack in task.acting:
        if not all(table["lost",]):
            run = train(task, params, pack, [attack], deadline=deadline, device=device)
            add_acted(table, attack, measured(run, [attack]))
    return table


def measured(run: Run, attacks: Sequence[Attack[Strict]]) -> Table:
    """Return the table of a training with its attacks' scores; a diverged pack is not attacked."""
    table = dict(run.table)
    if all(table["lost",]):
        return table
    start = time.perf_counter()
    for attack in attacks:
        table.update(score_attack(attack, run))
    members = len(table["lost",])
    put(table, ("seconds",), {"attack": [(time.perf_counter() - start) / members] * members})
    return table


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


def references_of(task: Task) -> References:
    """Measure R_lower by seed: each attack that reads a bottom model, by each party, on untrained models.

    What else it is granted of a training is replaced by what stands in for one that never was, noise for gradients. A
    few labeled rows on one untrained model are a noisy floor, and its noise would count as leakage; so each
    seed's is the mean over :data:`STARTS` models, each with one of the draws over which the attack is scored. An attack
    that reads the label party's own columns is measured without what was sent: no model takes part, so once.
    """
    lower: dict[str, list[float]] = {}
    noise: dict[str, list[float]] = {}
    for attack in task.attacks:
        starts = _starts(attack, task)
        if starts and all(keeper.stands_in() for keeper in keepers_for([attack])):
            scores = joined([_untrained_scores(task, attack, start) for start in range(starts)])
            for name in named_seats(attack, task):
                successes = best_of(standing(attack, variants_of(scores, name)))[1]["success"]
                of_models = np.reshape(successes, (starts, -1))
                lower[name] = of_models.mean(0).tolist()
                if starts > 1:  # the deviation of one model and that of the mean of so many others
                    noise[name] = (of_models.std(0, ddof=1) * math.sqrt(1 + 1 / starts)).tolist()
    return References(r_lower=lower, noise=noise)


def _starts(attack: Attack[Strict], task: Task) -> int:
    """Return the number of untrained models to measure an attack on; 0 for an attack that needs a training."""
    if "bottom" in attack.sees():
        return STARTS
    return int("own_features" in attack.sees() and task.dataset.active is not None)


def measure_references(cell: Cell) -> References:
    """Open a cell's task and measure its :func:`references_of`."""
    return references_of(Task.open(cell))


_KNOWN_REFERENCES: dict[tuple[str, str], References] = {}


def references_once(task: Task) -> References:
    """Return :func:`references_of`, measured once a process for tasks that differ in training and defense only."""
    same = {"training": Training(), "defense": "none", "fixed": {}, "trial_minutes": None}
    key = task.dataset.fingerprint, task.cell.model_copy(update=same).model_dump_json()
    if key not in _KNOWN_REFERENCES:
        _KNOWN_REFERENCES[key] = references_of(task)
    return _KNOWN_REFERENCES[key]


def _untrained_scores(task: Task, attack: Attack[Strict], start: int) -> Table:
    seeds = task.cell.seeds
    packs = [Pack(seeds, 1)] if task.architecture.stackable else [Pack((s,), None) for s in seeds]
    draw = [start % attack.draws]
    return joined([score_attack(attack, untrained(task, pack, [attack], start), draw) for pack in packs])

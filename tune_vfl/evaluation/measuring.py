"""Run attacks on their views of a training and score their answers, one table row per member of the pack."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.permuting import on_permuted_labels
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import guess_success, score_answer, score_reconstruction
from tune_vfl.evaluation.seats import named_seats
from tune_vfl.evaluation.summarizing import over_draws
from tune_vfl.evaluation.table import Numbers, Table, below, joined, put, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, train_pack
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict

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
    run = train_pack(task, params, pack, task.watching, deadline=deadline, device=device)
    table = measured(run, task.watching, not_needed)
    for attack in task.acting:
        if not all(table["lost",]):
            run = train_pack(task, params, pack, [attack], deadline=deadline, device=device)
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
            table.update(_of_some(attack, run, why))
            put(table, ("not_needed",), {attack.name: list(why)})
        else:
            table.update(score_attack(attack, run))
    put(table, ("seconds",), {"attack": [(time.perf_counter() - start) / members] * members})
    return table


def _of_some(attack: Attack[Strict], run: Run, not_needed: Sequence[str]) -> Table:
    """Return the scores of an attack on the trials of a pack that need it; other rows are not numbers."""
    seeds = len(run.pack.seeds)
    trials = [t for t in range(run.pack.trials or 0) if not not_needed[t * seeds]]
    if not trials:
        return {}
    scored = score_attack(attack, run.of_trials(trials))
    places = {trial * seeds + s: place * seeds + s for place, trial in enumerate(trials) for s in range(seeds)}
    rows = range(len(not_needed))
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

"""The noise of one seed: which part of a leakage's variance over seeds comes from the split, the training, the rows
whose labels are known, and the attack's own starts; and how many draws of the last two are worth their time.

Run: python -m benchmarks.noise_of_a_seed breast_cancer spambase:dataset.split=0.5 [--splits 8 --trainings 4 ...]

Each split of the rows has trainings of its own (weights, order, noise), which share it and stack. Each training is
attacked with every draw of the known rows, and with each of them from several starts. The design is balanced, so that
mean squares give unbiased components: split; training within a split; known rows within a split; training by known
rows; starts within all of them. An attack is its best candidate over the whole design, its advantage the signed one
over the floor of the same split, untrained weights, known rows and starts. Components are means over settings.

A "setting's own" component is that of what is left when each cell's mean over settings is taken away: what settings
that share their seeds are compared by. `--keep FOLDER` keeps the advantages, from which the tables are printed again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.noise_tables import Noise, print_tables
from tune_vfl.attacks.base import Attack
from tune_vfl.data.split import split
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.measuring import STARTS, guess_of
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.summarizing import best_of, standing
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict, parse
from tune_vfl.spec.raw import apply_settings
from tune_vfl.statistics.advantages import LEAST_HEADROOM, pseudo_values

Floats = NDArray[np.float64]
Cells = dict[str, dict[str, Floats]]
"""By variant and column the numbers of one setting: ``(T, A, B)`` of a split, ``(S, T, A, B)`` of all."""

SETTINGS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "laplace": ({"scale": 0.01}, {"scale": 0.03}),
    "gaussian": ({"sigma": 0.01}, {"sigma": 0.03}),
    "marvell": ({"budget": 0.25}, {"budget": 1.0}),
    "kdk": ({"k": 2, "epsilon": 0.25}, {"k": 2, "epsilon": 0.4}),
    "max_norm": ({},),
    "mid": ({"weight": 0.01}, {"weight": 0.1}),
}

KNOWING = {"auxiliary", "positive_hints"}
"""Grants of rows whose labels are known."""


class Design(NamedTuple):
    """Numbers of levels of each factor."""

    splits: int
    trainings: int
    known: int
    starts: int


def task_of(case: str, defense: str) -> Task:
    """Open the task of ``DATASET[:SETTING,...]`` with ten known labels a class, whatever its recipe."""
    dataset, _, settings = case.partition(":")
    raw = {"study": "noise", "dataset": dataset, "defense": defense, "attacks": ["default"]}
    return open_task(parse(apply_settings(raw, ["threat.labels_per_class=10", *filter(None, settings.split(","))])))


def tasks_of(case: str) -> dict[str, Task]:
    """Return the task of each defense that is defined for the data set's classes."""
    found = {}
    for defense in SETTINGS:
        try:
            found[defense] = task_of(case, defense)
        except SpecError:
            if defense == "laplace":
                raise
    return found


def with_split(task: Task, seed: int) -> Task:
    """Return the task with the test rows of one seed for all seeds, as if they were official ones."""
    held_out = split(task.dataset, seed).test_rows
    return replace(task, dataset=replace(task.dataset, test_rows=held_out))


def attacked(attack: Attack[Strict], run: Run, design: Design) -> Cells:
    """Return success and validation ``(members, A, B)`` by variant, for each draw of known rows from several starts.

    What an attack has nothing to draw for, known rows or starts, is run once and repeated. Of an attack that names its
    choice nothing else is scored.
    """
    found: dict[str, dict[str, list[list[float]]]] = {}
    y, seeds, k = run.y_train, run.pack.seed_of_each, run.task.dataset.num_classes
    starts = design.starts if "auxiliary" in attack.sees() else 1
    known = design.known if attack.sees() & KNOWING else 1
    for a in range(known):
        view = view_of(attack, run.with_draw(a))
        for b in range(starts):
            streams = view_of(attack, run.with_draw(1000 + starts * a + b)).streams
            answers = attack.run(replace(view, streams=streams))
            for variant in [v for v in answers if v == attack.choice] or answers:
                answer = answers[variant]
                assert isinstance(answer, Answer)  # noqa: S101 - every attack here is on labels
                scored = score_answer(answer, y, run.y_test, k, seeds)
                for column in {"success", "validation"} & scored.keys():
                    found.setdefault(variant, {}).setdefault(column, []).append(scored[column])
    shape = len(seeds), design.known, design.starts

    def spread(x: list[list[float]]) -> Floats:
        return np.broadcast_to(np.moveaxis(np.reshape(x, (known, starts, -1)), -1, 0), shape)

    return {v: {c: spread(x) for c, x in of.items()} for v, of in found.items()}


class Measured(NamedTuple):
    """Successes of one attack over the whole design.

    Attributes:
        success: of each setting by variant and column ``(S, T, A, B)``.
        lower: the same of each untrained start, where the attack reads a bottom model; else empty.
        seconds: of a member's draw, CPU.
    """

    success: list[Cells]
    lower: list[Cells]
    seconds: float


def joined(splits: Sequence[Sequence[Cells]]) -> list[Cells]:
    """Return each setting's (or start's) cells of all splits, ``(S, T, A, B)``, from those of one, ``(T, A, B)``."""
    return [
        {v: {c: np.stack([of[v][c] for of in each]) for c in each[0][v]} for v in each[0]}
        for each in zip(*splits, strict=True)
    ]


def measure(tasks: Mapping[str, Task], design: Design) -> tuple[dict[str, Measured], float]:
    """Return every attack of `default` in the whole design, and the CPU seconds of one training with recordings."""
    attacks = tasks["laplace"].watching
    success: dict[str, list[list[Cells]]] = {a.name: [] for a in attacks}
    lower: dict[str, list[list[Cells]]] = {a.name: [] for a in attacks}
    spent, trained, members = dict.fromkeys(success, 0.0), 0.0, 0
    for s in range(design.splits):
        seeds = tuple(range(s * design.trainings, (s + 1) * design.trainings))
        of_split: dict[str, list[Cells]] = {a.name: [] for a in attacks}
        for defense, of_defense in tasks.items():
            task = with_split(of_defense, s)
            params = [defense_params(defense, p, num_classes=task.cell.num_classes) for p in SETTINGS[defense]]
            begun = time.process_time()
            run = train_pack(task, params, Pack(seeds, len(params)), task.watching)
            trained, members = trained + time.process_time() - begun, members + len(params) * len(seeds)
            for attack in task.watching:
                begun = time.process_time()
                cells = attacked(attack, run, design)
                spent[attack.name] += time.process_time() - begun
                each = [slice(i * len(seeds), (i + 1) * len(seeds)) for i in range(len(params))]
                of_split[attack.name] += [
                    {v: {c: x[at] for c, x in of.items()} for v, of in cells.items()} for at in each
                ]
        bare = with_split(tasks["laplace"], s)
        for attack in attacks:
            success[attack.name].append(of_split[attack.name])
            starts = range(STARTS if "bottom" in attack.sees() else 0)
            lower[attack.name].append(
                [attacked(attack, untrained(bare, Pack(seeds, 1), [attack], k), design) for k in starts]
            )
        print(f"  split {s + 1} of {design.splits}", flush=True)
    found = {}
    for a in attacks:
        drawn = (design.known if a.sees() & KNOWING else 1) * (design.starts if "auxiliary" in a.sees() else 1)
        found[a.name] = Measured(joined(success[a.name]), joined(lower[a.name]), spent[a.name] / members / drawn)
    return found, trained / members


def chosen(attack: Attack[Strict], cells: Cells) -> tuple[str, Floats]:
    """Return the attack's best candidate and its success ``(S, T, A, B)``; it chooses in each cell by itself."""
    shape = next(iter(cells.values()))["success"].shape
    columns = {v: {c: x.ravel().tolist() for c, x in of.items()} for v, of in cells.items()}
    name, best = best_of(standing(attack, columns))
    return name, np.reshape(best["success"], shape)


def advantages(attack: Attack[Strict], measured: Measured, guess: float) -> tuple[Floats, list[str]]:
    """Return signed advantages ``(settings, S, T, A, B)`` of the attack's best candidates, and these by setting."""
    found, names = [], []
    for cells in measured.success:
        name, success = chosen(attack, cells)
        floor = np.full(success.shape, guess)
        if measured.lower:
            lower = np.mean([chosen(attack, of)[1] for of in measured.lower], axis=0)
            floor = lower if lower.mean() > guess else floor
        headroom = float(1 - floor.mean())
        values = pseudo_values(success.reshape(1, -1), floor.reshape(1, -1)) * headroom / max(headroom, LEAST_HEADROOM)
        found.append(values.reshape(success.shape))
        names.append(name)
    return np.stack(found), names


def noise_of(case: str, design: Design) -> Noise:
    """Measure a data set."""
    tasks = tasks_of(case)
    attacks, guess = {a.name: a for a in tasks["laplace"].watching}, guess_of(tasks["laplace"])
    measured, training = measure(tasks, design)
    found = {name: advantages(attacks[name], of, guess) for name, of in measured.items()}
    return Noise(
        [" ".join([d, *(f"{k} {v:g}" for k, v in p.items())]) for d in tasks for p in SETTINGS[d]],
        {name: values for name, (values, _) in found.items()},
        {name: names for name, (_, names) in found.items()},
        {name: of.seconds for name, of in measured.items()},
        training,
    )


def main() -> None:
    """Print the tables of each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="DATASET[:SETTING,...]")
    for name, default in (("splits", 8), ("trainings", 4), ("known", 4), ("starts", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    prepare_process()
    torch.set_num_threads(1)
    design = Design(given.splits, given.trainings, given.known, given.starts)
    for case in given.cases:
        kept = given.keep and given.keep / f"{case.partition(':')[0]}.json"
        if kept and kept.exists():
            noise = Noise.read(kept)
        else:
            noise = noise_of(case, design)
            if kept:
                noise.write(kept)
        print(f"\n### {case}")
        print_tables(noise)


if __name__ == "__main__":
    main()

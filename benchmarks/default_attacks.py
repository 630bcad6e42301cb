"""What `attacks: default` costs, in CPU seconds over one training, and what keeping the gradients of all moments costs.

Run: python -m benchmarks.default_attacks digits:none:1 digits:laplace:4 spambase:none:1 spambase:laplace:4
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.measuring import score_attack
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import parse


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return what a call costs this process, and what it returns."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def row(dataset: str, defense: str, trials: int, repeats: int) -> list[str]:
    """Return a line of the table: a pack of so many trials by three seeds, plain, recorded, attacked."""
    raw = {"study": "cost", "dataset": dataset, "defense": defense, "attacks": ["default"], "budget": {"seeds": 3}}
    task: Task = open_task(parse(raw))
    params = [defense_params(defense, {}, num_classes=task.cell.num_classes)] * trials
    pack = Pack(task.cell.seeds, trials)
    plain, recorded = [], []
    each: dict[str, list[float]] = {a.name: [] for a in task.watching}
    for turn in range(repeats + 1):  # the first one only warms up
        before, _ = cpu_seconds(lambda: train_pack(task, params, pack))
        after, run = cpu_seconds(lambda: train_pack(task, params, pack, task.watching))
        spent = {a.name: cpu_seconds(partial(score_attack, a, run))[0] for a in task.watching}
        if turn:
            plain.append(before)
            recorded.append(after)
            for name, seconds in spent.items():
                each[name].append(seconds)
    base = median(plain)
    shares = {name: median(seconds) / base for name, seconds in each.items()}
    parts = ", ".join(f"{name} {share:.2f}" for name, share in sorted(shares.items(), key=lambda s: -s[1]))
    whole = median(recorded) / base + sum(shares.values())
    name = f"{dataset}, {defense}, {trials} x 3"
    return [name, f"{base:.2f}", f"{median(recorded) / base:.2f}", f"{whole:.2f}", parts]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="DATASET:DEFENSE:TRIALS")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    prepare_process()
    head = ["pack", "training, CPU s", "with recordings", "with attacks", "of which"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for case in given.cases:
        dataset, defense, trials = case.split(":")
        print(f"| {' | '.join(row(dataset, defense, int(trials), given.repeats))} |", flush=True)


if __name__ == "__main__":
    main()

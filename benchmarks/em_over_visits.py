"""Leakage by `attacks: default` without EM over visits and with it, on the same trainings, and its cost.

Run: python -m benchmarks.em_over_visits spambase digits [--seeds 10] [--defenses gaussian,mid]

Noise is given by its weight, sigma times the rows of a batch: it is added to the gradient of a batch's mean. Intervals
are those of a study of these settings. The cost is the CPU of each attack over that of the training that it reads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.problem import cpu_seconds
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.measuring import references_of, score_attack
from tune_vfl.evaluation.packs import evaluate_task
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.outcome import Outcome
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import parse
from tune_vfl.statistics import leakage_bounds

EM = ("gradient_em", "gradient_em_known")
WEIGHTS = (0.4, 1.3, 4.0, 13.0, 40.0)
"""Of noise: from where everything leaks to where nothing does."""
DATA: dict[str, dict[str, Any]] = {
    "spambase": {"dataset": {"name": "spambase", "split": 0.5}},
    "bank": {"dataset": "bank"},
    "give_me_some_credit": {"dataset": {"name": "give_me_some_credit", "rows": 6000}},
    "covtype": {"dataset": {"name": "covtype", "rows": 6000}, "threat": {"labels_per_class": 10}},
    "digits": {"dataset": "digits"},
    "mnist": {"dataset": {"name": "mnist", "rows": 6000}},
}
"""Of covtype's rarest class 19 rows are drawn for training, of which the recipe would have twenty labels known."""
OTHERS: dict[str, list[dict[str, Any]]] = {
    "mid": [{"weight": 0.03}, {"weight": 0.3}, {"weight": 1.0}],
    "max_norm": [{}],
    "dcae": [{}],
    "marvell": [{"budget": 1.0}, {"budget": 4.0}],
    "label_dp": [{"epsilon": 1.0}, {"epsilon": 2.0}],
    "labobf": [{}],
}


def settings(batch: int) -> Mapping[str, list[dict[str, Any]]]:
    """Return parameters by defense."""
    noise = [w / batch for w in WEIGHTS]
    return {"gaussian": [{"sigma": s} for s in noise], "laplace": [{"scale": s / 2**0.5} for s in noise], **OTHERS}


def without_and_with(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return, for each setting, leakage and interval without the attacks and with them, as texts."""
    names = [n for n in outcomes[0].attacks if n not in EM]
    columns = []
    for attacks in (names, [*names, *EM]):
        x = np.asarray([[o.attacks[a].advantages for o in outcomes] for a in attacks])
        means = np.clip(x.mean(-1).max(0), 0, 1)
        found = leakage_bounds(x)
        columns.append([f"{m:.2f} [{b.lower:.2f}, {b.upper:.2f}]" for m, b in zip(means, found, strict=True)])
    return [list(pair) for pair in zip(*columns, strict=True)]


def rows(name: str, seeds: int, only: Sequence[str]) -> Iterator[list[str]]:
    """Yield a line of the table for each setting."""
    for defense, params in settings(_task(name, "none", 1).cell.training.batch_size).items():
        if only and defense not in only:
            continue
        try:
            task = _task(name, defense, seeds)
        except SpecError as error:
            print(f"{name}, {defense}: {error}", file=sys.stderr)
            continue
        outcomes = evaluate_task(task, params, references_of(task))
        good = [(p, o) for p, o in zip(params, outcomes, strict=True) if o.outcome == "ok"]
        found = without_and_with([o for _, o in good]) if good else []
        for (given, outcome), pair in zip(good, found, strict=True):
            says = ", ".join(f"{k} {v:.3g}" for k, v in given.items())
            yield [name, f"{defense} {says}", f"{outcome.utility.mean:.3f}" if outcome.utility else "", *pair]


def _task(name: str, defense: str, seeds: int) -> Task:
    raw = {"study": "em", **DATA[name], "defense": defense, "attacks": ["default"], "budget": {"seeds": seeds}}
    return open_task(parse(raw))


def cost(name: str, trials: int = 4) -> str:
    """Return the CPU of each attack over that of its training, in a pack of so many trials by three seeds."""
    task = _task(name, "laplace", 3)
    params = [defense_params("laplace", {}, num_classes=task.cell.num_classes)] * trials
    attacks = [a for a in task.watching if a.name in EM]
    pack = Pack(task.cell.seeds, trials)
    plain, _ = cpu_seconds_of(lambda: train_pack(task, params, pack))
    _, run = cpu_seconds_of(lambda: train_pack(task, params, pack, attacks))
    spent = {a.name: cpu_seconds_of(partial(score_attack, a, run))[0] for a in attacks}
    said = "; ".join(f"{attack} {seconds:.1f}, {seconds / plain:.2f} trainings" for attack, seconds in spent.items())
    return f"{name}: training {plain:.1f} CPU s; {said}"


def cpu_seconds_of(work: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a call and its result; the first call warms up."""
    work()
    found: list[Any] = []
    return cpu_seconds(lambda: found.append(work())), found[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=DATA)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--defenses", default="", help="some of them, with commas")
    parser.add_argument("--cost", action="store_true", help="the cost alone")
    given = parser.parse_args()
    prepare_process()
    if given.cost:
        print("\n".join(cost(name) for name in given.data))
        return
    head = ["data", "setting", "utility", "default without them", "default"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in given.data:
        for row in rows(name, given.seeds, given.defenses.split(",") if given.defenses else ()):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

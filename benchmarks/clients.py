"""FedAdOb's table III and its accuracy: what a server recovers of a client's MNIST images, for docs/findings.md.

Ten clients of 6,000 images, LeNet with one private convolution, SGD at 0.01 with weight decay 4e-5 and batches of 64,
50 rounds of one pass: all as published. A seed of a defense is a process of its own; errors are means of squares,
pixels in [0, 1]. What each seed came to goes to stderr.
Run: python -m benchmarks.clients [--seeds 0 1 2] [--only none fedadob] (TUNE_VFL_DATA holds mnist)
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, NamedTuple

from tune_vfl.evaluation.packs import evaluate_task
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.outcome import Outcome
from tune_vfl.spec import parse
from tune_vfl.spec.cell import References

ATTACKS: dict[str, dict[str, Any]] = {
    "wgi": {"methods": ["cosine"], "rows": 5, "restarts": 2},
    "wmi": {},
    "bgi": {"methods": ["cosine"], "rows": 5, "aux": 1000, "moments": ["last"]},
    "bmi": {"aux": 5000},
}
CASES: dict[str, tuple[str, dict[str, float], Sequence[str]]] = {
    "none": ("none", {}, tuple(ATTACKS)),
    "splitfed": ("splitfed", {}, ("bgi", "bmi")),
    "fedadob": ("fedadob", {"mean_range": 50.0, "variance": 9.0}, tuple(ATTACKS)),
}


class Asked(NamedTuple):
    """One training."""

    case: str
    seed: int
    rows: int
    rounds: int
    local_steps: int | None
    momentum: float
    attacks: tuple[str, ...]
    steps: int


def attacks_of(asked: Asked) -> list[dict[str, Any]]:
    """Return the attacks that are asked for and possible."""
    found = [{"name": name, **ATTACKS[name]} for name in CASES[asked.case][2] if name in asked.attacks]
    return [{**one, "steps": asked.steps} if one["name"] in {"wgi", "bgi"} else one for one in found]


def spec_of(asked: Asked) -> dict[str, Any]:
    """Return the study that a training is one seed of."""
    clients: dict[str, Any] = {"name": "horizontal", "clients": 10, "rounds": asked.rounds}
    if asked.local_steps is not None:
        clients["local_steps"] = asked.local_steps
    return {
        "study": "clients",
        "dataset": {"name": "mnist", "rows": asked.rows},
        "federation": clients,
        "model": {"name": "lenet", "cut": 1, "batch_norm": True},
        "training": {
            "optimizer": "sgd",
            "lr": 0.01,
            "momentum": asked.momentum,
            "weight_decay": 4e-5,
            "batch_size": 64,
        },
        "defense": CASES[asked.case][0],
        "attacks": attacks_of(asked),
    }


def measured(asked: Asked) -> tuple[Asked, Outcome, float]:
    """Train and attack once."""
    prepare_process()
    began, task = time.process_time(), open_task(parse(spec_of(asked)))
    alone = replace(task, cell=task.cell.model_copy(update={"seeds": (asked.seed,)}))
    (outcome,) = evaluate_task(alone, [CASES[asked.case][1]], References())
    return asked, outcome, time.process_time() - began


def line(asked: Asked, outcome: Outcome, seconds: float) -> str:
    """Say what one training came to: accuracy, and by attack the error of every variant and of the mean image."""
    if outcome.utility is None:
        return f"{asked.case} seed {asked.seed}: {outcome.outcome}, {outcome.reason}"
    parts = [f"{asked.case} seed {asked.seed}: accuracy {outcome.utility.mean:.4f}, {seconds:.0f} CPU s"]
    for name, score in outcome.attacks.items():
        each = ", ".join(f"{v} {s['mse']:.4f}" for v, s in score.variants.items())
        parts.append(f"{name} {score.extra['mse']:.4f} ({each}; mean image {score.extra['mse_mean']:.4f})")
    return "; ".join(parts)


def shown(values: list[float]) -> str:
    """Format a mean and its deviation over seeds."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}" if values else "-"


def runs(asked: list[Asked], processes: int) -> Iterator[tuple[Asked, Outcome, float]]:
    """Yield what is measured, as it comes."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for future in as_completed([pool.submit(measured, one) for one in asked]):
            yield future.result()


def table(found: Mapping[str, list[Outcome]]) -> str:
    """Return the table, a row a case."""
    lines = ["| | accuracy | " + " | ".join(ATTACKS) + " |", "|---" * (len(ATTACKS) + 2) + "|"]
    for case, outcomes in found.items():
        accuracy = shown([o.utility.mean for o in outcomes if o.utility])
        by_attack = [[o.attacks[a].extra["mse"] for o in outcomes if a in o.attacks] for a in ATTACKS]
        lines.append(f"| {case} | {accuracy} | " + " | ".join(shown(v) for v in by_attack) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=60_000, help="of all clients together")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--local-steps", type=int, help="batches of a round; without it a pass over a client's rows")
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--attacks", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--steps", type=int, default=300, help="of gradient inversion")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    recipe = (given.rows, given.rounds, given.local_steps, given.momentum, tuple(given.attacks), given.steps)
    found: dict[str, list[Outcome]] = defaultdict(list)
    every = [Asked(case, seed, *recipe) for seed in given.seeds for case in given.only]
    for asked, outcome, seconds in runs([one for one in every if attacks_of(one)], given.processes):
        print(line(asked, outcome, seconds), file=sys.stderr, flush=True)
        found[asked.case].append(outcome)
    print(table({case: found[case] for case in given.only if case in found}))


if __name__ == "__main__":
    main()

"""Costs of a round of a horizontal federation: clients and trials in one pass over one client at a time.

Digits, its MLP, no defense; both ways in turn, medians of the CPU seconds of a round, and the memory at its highest.
Run: python -m benchmarks.rounds [--clients 10 100] [--trials 1 4]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from tune_vfl.evaluation.clients import Clients
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict, parse

SEEDS = (0, 1, 2)
ROUNDS = 7


def rounds_of(clients: int, pack: Pack) -> Iterator[object]:
    """Return the rounds of a federation, one after the other."""
    federation = {"name": "horizontal", "clients": clients, "rounds": 1000}
    raw = {"study": "s", "dataset": "digits", "defense": "none", "attacks": ["bmi"], "federation": federation}
    task = open_task(parse({**raw, "budget": {"seeds": len(SEEDS)}}))
    _, rounds = Clients(task, pack).begin([Strict()] * (pack.trials or 1))
    return rounds.steps()


def together(clients: int, trials: int) -> Callable[[], None]:
    """Return what takes a round of all trials, seeds and clients in one pass."""
    rounds = rounds_of(clients, Pack(SEEDS, trials))
    next(rounds)

    def step() -> None:
        next(rounds)

    return step


def one_at_a_time(clients: int, trials: int) -> Callable[[], None]:
    """Return what takes a round of every trial and seed by itself, and in it of one client after the other."""
    federations = [rounds_of(clients, Pack((seed,), None)) for _ in range(trials) for seed in SEEDS]
    for rounds in federations:
        next(rounds)

    def step() -> None:
        for rounds in federations:
            next(rounds)

    return step


def seconds(step: Callable[[], None]) -> float:
    """Return the CPU seconds of a round."""
    begun = time.process_time()
    step()
    return time.process_time() - begun


def main() -> None:
    """Print a line for each number of clients and trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--trials", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--memory", action="store_true", help="train one federation in one pass and say what it took")
    asked = parser.parse_args()
    prepare_process()
    if asked.memory:
        together(asked.clients[0], asked.trials[0])()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        return
    print("| clients | trials | one at a time, ms | in one pass, ms | ratio | MiB |\n|---|---|---|---|---|---|")
    for clients in asked.clients:
        for trials in asked.trials:
            ways = [one_at_a_time(clients, trials), together(clients, trials)]
            spent = [[seconds(way) for way in ways] for _ in range(ROUNDS)]
            alone, one_pass = (1000 * statistics.median(times) for times in zip(*spent, strict=True))
            command = [sys.executable, "-m", "benchmarks.rounds", "--memory"]
            asked_for = ["--clients", str(clients), "--trials", str(trials)]
            memory = subprocess.run([*command, *asked_for], check=True, capture_output=True, text=True).stdout.strip()
            print(f"| {clients} | {trials} | {alone:.0f} | {one_pass:.0f} | {alone / one_pass:.1f} | {memory} |")


if __name__ == "__main__":
    main()

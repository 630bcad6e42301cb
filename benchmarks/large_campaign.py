"""CPU time of verbs on a large campaign: 5,000 simulated trials over 20 studies.

    python -m benchmarks.large_campaign FOLDER [--trials 5000] [--turns 3] [--against CHECKOUT]

Two campaigns of 20 defenses against five attacks on one data set. In `few` every defense wastes a little more utility
than the one before it, so that some 250 settings are on the joint front; in `all` nothing is wasted, so that nearly all
are, which is the most that there can be to decide. They are searched once (minutes) and kept in the folder. A row a
campaign and verb: CPU seconds of the whole process, the median of the turns. With the checkout of another version that
one is measured too, in turns with this one, and what both print is compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.planning import shared_out
from tune_vfl.evaluation.coverage import coverage_of
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import load_space, space_files, space_of
from tune_vfl.spec import Named

STUDIES, WASTE, NOISE = 20, 0.02, 0.01
ATTACKS = ("norm", "direction", "pmc", "spectral", "mean")
CASES = ("few", "all")
VERBS = (("status", "--json"), ("status",), ("frontier", "--json"), ("frontier",), ("report", "--json"))


def search(case: str, trials: int) -> None:
    """Search one of the campaigns, under its name, in the ledger of the environment."""
    studies: list[PlannedStudy] = []
    simulated: dict[str, dict[str, Any]] = {}
    for defense in space_files():
        ranges = {n: (d.float_, d.log) for n, d in load_space(defense, num_classes=2).params.items() if d.float_}
        if not ranges or len(studies) == STUDIES:
            continue
        name, ((low, high), log) = next(iter(ranges.items()))
        simulated[defense] = {"parameter": name, "low": low, "high": high, "log": log}
        if case == "few":
            simulated[defense]["waste"] = WASTE * len(studies)
        space = {"name": defense, "space": {name: {"float": [low, high], "log": log}}}
        spec = simulated_spec(
            f"{case}-{defense}",
            defense=space,
            attacks=list(ATTACKS),
            sampler={"name": "random", "seed": len(studies)},
            budget={"trials": trials, "seeds": 3},
            resources={"concurrency": 2},
        )
        cell = simulated_cell(spec).model_copy(update={"attacks": tuple(Named(name=a) for a in ATTACKS)})
        covers = coverage_of(spec, cell)
        studies.append(PlannedStudy(spec, cell, space_of(spec, cell), coverage=covers))
    planned = PlannedCampaign(case, shared_out(studies, trials, case), trials, {"study": case})
    work = TrainableSpec(SimulatedTrainable, {"noise": NOISE, "by_defense": simulated})
    run_campaign(planned, progress=False, work=work)


class VerbOutput(NamedTuple):
    """A verb's output, and the CPU seconds of its process."""

    said: str
    cpu: float


def ask(checkout: Path, home: Path, case: str, verb: tuple[str, ...]) -> VerbOutput:
    """Run a verb of one version on one campaign."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tune_vfl", verb[0], case, *verb[1:]]
    places = {"PYTHONPATH": str(checkout), "TUNE_VFL_HOME": str(home)}
    ended = subprocess.run(command, check=True, cwd=checkout, env={**os.environ, **places}, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return VerbOutput(ended.stdout.decode(), spent)


def difference(one: Any, other: Any) -> float:
    """Return the largest difference between the numbers of two answers; infinite where they say other things."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        return max((difference(one[k], other[k]) for k in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max((difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    if type(one) is type(other) is float:
        return abs(one - other)
    return 0.0 if one == other else math.inf


def compared(verb: tuple[str, ...], one: str, other: str) -> str:
    """Say whether two versions print the same."""
    if one == other:
        return "the same"
    apart = difference(json.loads(one), json.loads(other)) if "--json" in verb and verb[0] != "report" else math.inf
    return f"numbers within {apart:.1g}" if apart < 1 else "DIFFERENT"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    checkouts = [here] if given.against is None else [given.against.resolve(), here]
    for case in given.cases:
        home = given.folder.resolve() / case
        if not home.exists():
            os.environ["TUNE_VFL_HOME"] = str(home)
            search(case, given.trials)
    columns = ["CPU s"] if given.against is None else ["before, CPU s", "after", "printed"]
    print("| campaign | verb | " + " | ".join(columns) + " |")
    for case in given.cases:
        for verb in VERBS:
            answers = [
                [ask(c, given.folder.resolve() / case, case, verb) for c in checkouts] for _ in range(given.turns)
            ]
            cpu = [f"{statistics.median(a.cpu for a in column):.2f}" for column in zip(*answers, strict=True)]
            same = [compared(verb, *(a.said for a in answers[0]))] if len(checkouts) == 2 else []
            print(f"| {case} | `{' '.join(verb)}` | " + " | ".join([*cpu, *same]) + " |", flush=True)


if __name__ == "__main__":
    main()

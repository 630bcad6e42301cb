"""Overhead of a search beside its trials: ask, Ray Tune, tell, page, MLflow, with the simulated trainable.

    python -m benchmarks.search_overhead [--samplers random nsga2 tpe] [--trials 10000] [--packs auto 1]

The simulated trial takes no time, so that everything measured is overhead. Two parameters are searched, of which one
only wastes utility: fronts and ranks change as they do in a real search. A row a search:

* wall and CPU seconds of the driver a trial, page and MLflow's recorder in it, over the first and the last thousand
  trials (of a shorter search over its first and last tenth); a trial's time is when it was told. Starting Ray is left
  out.
* the largest resident memory of the driver, a process of its own for each search.
* wall and CPU seconds from the last trial's end until the search is over, with its page and everything in MLflow.
* CPU seconds of ``status``, ``frontier`` and ``report`` on the study, each a process of its own.

After each search MLflow is held against the ledger: runs, front, knee, ranks, report.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import psutil

from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl.analysis.joint_front import Joint
from tune_vfl.driver.api import default_sinks
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.evaluation.coverage import coverage_of
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.service.studies import campaign_record
from tune_vfl.spaces.named import space_of

if TYPE_CHECKING:
    from tune_vfl.records.studies import StudyRecord

SPACE = {"name": "sgsub", "space": {"tau": {"float": [0.1, 2.0]}, "w_cos": {"float": [0.0, 1.0]}}}
WORK = TrainableSpec(SimulatedTrainable, {"noise": 0.01, "parameter": "tau", "low": 0.1, "high": 2.0, "log": False})
VERBS = (("status", "--json"), ("frontier", "--json"), ("report", "--json"))


class Samples(threading.Thread):
    """Looks ten times a second at the clock, the CPU time and the memory of this process."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, float, int]] = []
        self._over = threading.Event()

    def run(self) -> None:
        process = psutil.Process()
        while not self._over.wait(0.1):
            self.seen.append((time.time(), time.process_time(), process.memory_info().rss))

    def stop(self) -> None:
        self._over.set()
        self.join()

    def cpu_at(self, moment: float) -> float:
        """Return the CPU seconds that this process had used by then."""
        return float(np.interp(moment, [s[0] for s in self.seen], [s[1] for s in self.seen]))

    @property
    def memory(self) -> float:
        """The largest, in MiB."""
        return max(s[2] for s in self.seen) / 2**20


class Costs(NamedTuple):
    """The cost of one search, see above; all are wall and CPU seconds, ``first`` and ``last`` a trial."""

    first: tuple[float, float]
    last: tuple[float, float]
    memory: float
    end: tuple[float, float]
    verbs: tuple[float, ...] = ()

    def __str__(self) -> str:
        (wall, cpu), (wall_last, cpu_last) = self.first, self.last
        ratios = f"{wall_last / wall:.2f}, {cpu_last / cpu:.2f}"
        driver = f"{wall:.4f}, {cpu:.4f} | {wall_last:.4f}, {cpu_last:.4f} | {ratios}"
        verbs = ", ".join(f"{seconds:.2f}" for seconds in self.verbs) or "-"
        return f"{driver} | {self.memory:.0f} | {self.end[0]:.1f}, {self.end[1]:.1f} | {verbs}"


def measure(sampler: str, trials: int, pack: str | int, *, mlflow: bool = True) -> Costs:
    """Run a search of its own name and hold MLflow against its ledger."""
    name = f"{sampler}-{trials}-{pack}"
    spec = simulated_spec(
        name,
        sampler=sampler,
        defense=SPACE,
        budget={"trials": trials, "seeds": 3},
        resources={"pack": pack, "concurrency": 2},
    )
    cell = simulated_cell(spec)
    samples = Samples()
    samples.start()
    # As `search` plans a study: which attackers it stands for is kept with it.
    planned = PlannedStudy(spec, cell, space_of(spec, cell), coverage=coverage_of(spec, cell))
    sinks = default_sinks(PlannedCampaign.of(planned)) if mlflow else []
    run_campaign(PlannedCampaign.of(planned), sinks=sinks, progress=False, work=WORK)
    over = time.time()
    time.sleep(0.2)
    samples.stop()
    record = campaign_record(name).studies[0]
    if mlflow:
        check_mlflow(record)
    return costs_of(record, samples, over)


def costs_of(record: StudyRecord, samples: Samples, over: float) -> Costs:
    """Return what a search cost that was over at a moment."""
    told = sorted(t.finished.timestamp() for t in record.counted)
    some = min(1000, max(1, len(told) // 10))

    def a_trial(begun: float, ended: float) -> tuple[float, float]:
        return (ended - begun) / some, (samples.cpu_at(ended) - samples.cpu_at(begun)) / some

    first, last = a_trial(told[0], told[some]), a_trial(told[-1 - some], told[-1])
    end = over - told[-1], samples.cpu_at(over) - samples.cpu_at(told[-1])
    return Costs(first, last, samples.memory, end)


def check_mlflow(record: StudyRecord) -> None:
    """Hold MLflow against the ledger.

    Raises:
        SystemExit: saying what differs.
    """
    from tune_vfl.machine.places import resolve_uri
    from tune_vfl.tracking import payload
    from tune_vfl.tracking.runs import SUMMARY_KEY, Key, Runs

    name = record.name
    held = Runs(name, resolve_uri(None), record.id).written  # without those that are half written
    summary, now = held.pop(SUMMARY_KEY), Joint(record)
    wanted: dict[Key, dict[str, str]] = {
        (name, "trial", t.number): payload.front_tags(t.rank, knee=t is now.knee, joint=t.rank == 0)
        for t in now.settings.trials
        if t.outcome.outcome != "preempted"
    }
    wanted |= {(name, "preempted", t.number): {} for t in record.trials if t.outcome.outcome == "preempted"}
    tags = {payload.PARETO, payload.CAMPAIGN_PARETO, payload.RANK, payload.KNEE, payload.CONFIRMED}
    found = {key: {k: v for k, v in run.tags.items() if k in tags} for key, run in held.items()}
    differing = [key for key in {*wanted, *found} if wanted.get(key) != found.get(key)]
    if differing or payload.DIGEST not in summary.tags:
        raise SystemExit(f"MLflow is not the ledger: {len(differing)} runs differ")


def cpu_of(verb: str, study: str, *options: str) -> float:
    """Return the CPU seconds of a verb on a study."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tune_vfl.cli.main", verb, study, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(sampler: str, trials: int, pack: str | int, *, mlflow: bool) -> Costs:
    """Measure a search as the only one of this process."""
    import ray

    measure("random", 8, "auto", mlflow=mlflow)  # Ray's and MLflow's own start
    costs = measure(sampler, trials, pack, mlflow=mlflow)
    ray.shutdown()
    return costs._replace(verbs=tuple(cpu_of(verb, f"{sampler}-{trials}-{pack}", *options) for verb, *options in VERBS))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", default=["random", "nsga2"])
    parser.add_argument("--trials", nargs="+", type=int, default=[1000])
    parser.add_argument("--packs", nargs="+", default=["auto"])
    parser.add_argument("--without-mlflow", action="store_true")
    given = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    print("| sampler | trials | pack | first: wall, CPU s a trial | last | ratios | MiB | end, s | verbs, CPU |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for sampler, pack, trials in product(given.samplers, given.packs, given.trials):
        size = pack if pack == "auto" else int(pack)
        with (
            tempfile.TemporaryDirectory() as os.environ["TUNE_VFL_HOME"],
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
        ):
            costs = process.submit(alone, sampler, trials, size, mlflow=not given.without_mlflow).result()
        print(f"| {sampler} | {trials} | {pack} | {costs} |", flush=True)


if __name__ == "__main__":
    main()

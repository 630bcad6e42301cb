"""The gain of a second core: the machine's own ceiling, and a search on two nodes of one CPU against one.

    python -m benchmarks.two_nodes ceiling [--repeats 5] [--seconds 6] [--pinned]
    python -m benchmarks.two_nodes search [--repeats 3] [--trials 240]

``ceiling``: packs of spambase (laplace, 3 seeds, norm) as ``CellTrainable`` evaluates them, without Ray: one process
for so many seconds, then two at once, in turns; the ratio of packs a second is the most that two nodes here can
reach. ``search``: the same data set with default attacks, a whole search with its floors and its undefended model, on
virtual nodes of one CPU each (``ray.cluster_utils``) that stand beside a head without any; the driver, a process of the
same machine, takes its share of the cores. The load before each measurement is printed: other work spoils both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Barrier

    from tune_vfl.records.plans import PlannedStudy

SPEC: dict[str, Any] = {
    "dataset": {"name": "spambase", "split": 0.5},
    "defense": "laplace",
    "attacks": ["norm"],
    "sampler": {"name": "random"},
}
PACK = [{"scale": scale} for scale in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)]


def study(name: str, **changes: Any) -> PlannedStudy:
    """Plan a study on spambase."""
    from tune_vfl.driver.planning import planned_campaign

    return planned_campaign({**SPEC, "study": name, **changes}).studies[0]


def evaluating(core: int | None, seconds: float, begin: Barrier, told: Any) -> None:
    """Evaluate packs for so many seconds, and tell packs a second, by wall and by CPU; whole packs only."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    from trainables.cell import CellTrainable
    from tune_vfl.spec.cell import References

    cell = study("ceiling", budget={"trials": 1, "seeds": 3}).cell
    cell = cell.model_copy(update={"training": cell.training.model_copy(update={"epochs": 60})})
    CellTrainable.prepare_worker()
    CellTrainable.evaluate(cell, PACK, References(), {})
    begin.wait()
    began, cpu, packs = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        CellTrainable.evaluate(cell, PACK, References(), {})
        packs += 1
    told.put((packs / (time.perf_counter() - began), packs / (time.process_time() - cpu)))


def rates(processes: int, seconds: float, *, pinned: bool) -> tuple[float, float]:
    """Return packs a second of all processes together, and packs a CPU second of each."""
    context = get_context("spawn")
    begin, told, cores = context.Barrier(processes), context.Queue(), sorted(os.sched_getaffinity(0))
    started = [
        context.Process(target=evaluating, args=(cores[k % len(cores)] if pinned else None, seconds, begin, told))
        for k in range(processes)
    ]
    for process in started:
        process.start()
    found = [told.get() for _ in started]
    for process in started:
        process.join()
    return sum(wall for wall, _ in found), statistics.mean(cpu for _, cpu in found)


def ceiling(repeats: int, seconds: float, *, pinned: bool) -> None:
    """Print the machine's own ceiling."""
    print("| load | one: packs a s, a CPU s | two: packs a s, each a CPU s | ratio of wall | of CPU |")
    print("|---|---|---|---|---|", flush=True)
    ratios = []
    for _ in range(repeats):
        load = os.getloadavg()[0]
        one, two = (rates(n, seconds, pinned=pinned) for n in (1, 2))
        ratios.append((two[0] / one[0], 2 * two[1] / one[1]))
        numbers = f"{one[0]:.2f}, {one[1]:.2f} | {two[0]:.2f}, {two[1]:.2f} | {ratios[-1][0]:.2f} | {ratios[-1][1]:.2f}"
        print(f"| {load:.1f} | {numbers} |", flush=True)
    wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"median: {wall:.2f} of wall; {cpu:.2f} of CPU, which is what two cores without other work would give")


@contextmanager
def nodes(count: int) -> Iterator[None]:
    """A head without a CPU, and so many nodes with one."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(count):
        cluster.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = cluster.address
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
        del os.environ["RAY_ADDRESS"]


def searched(trials: int) -> tuple[float, float, float]:
    """Search once: seconds of it, CPU of the driver, seconds within trials and the undefended model."""
    from tune_vfl.driver.campaign_run import run_campaign
    from tune_vfl.records.campaigns import PlannedCampaign
    from tune_vfl.service.studies import campaign_record

    plan = study("nodes", attacks="default", budget={"trials": trials, "seeds": 3})
    began, cpu = time.perf_counter(), time.process_time()
    run_campaign(PlannedCampaign.of(plan), sinks=[], progress=False)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    record = campaign_record(plan.name).studies[0]
    if len(record.ok) < trials or record.baseline is None:
        raise SystemExit(f"not all trials are ok: {record.by_outcome()}")
    return wall, cpu, sum(sum(o.seconds.values()) for o in (record.baseline, *(t.outcome for t in record.trials)))


def measured(count: int, trials: int, told: Any) -> None:
    """Search on so many nodes in a home of its own, after a small search that warms the workers up."""
    with tempfile.TemporaryDirectory() as os.environ["TUNE_VFL_HOME"], nodes(count):
        from tune_vfl.driver.campaign_run import run_campaign
        from tune_vfl.records.campaigns import PlannedCampaign

        warm = study("warm", budget={"trials": 2 * count, "seeds": 1}, resources={"pack": 1})
        run_campaign(PlannedCampaign.of(warm), sinks=[], progress=False)
        told.put(searched(trials))


def compare(repeats: int, trials: int) -> None:
    """Print searches on one node and on two, in turns."""
    context = get_context("spawn")
    print("| load | one node: wall, driver's CPU, in trials, s | two nodes | ratio of wall |\n|---|---|---|---|")
    ratios = []
    for _ in range(repeats):
        load, found = os.getloadavg()[0], []
        for count in (1, 2):
            told = context.Queue()
            process = context.Process(target=measured, args=(count, trials, told))
            process.start()
            found.append(told.get(timeout=1200))
            process.join()
        ratios.append(found[0][0] / found[1][0])
        texts = [", ".join(f"{number:.1f}" for number in numbers) for numbers in found]
        print(f"| {load:.1f} | {texts[0]} | {texts[1]} | {ratios[-1]:.2f} |", flush=True)
    print(f"median: {statistics.median(ratios):.2f}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ceiling", "search"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--trials", type=int, default=240)
    parser.add_argument("--pinned", action="store_true", help="each process of the ceiling on a core of its own")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    if given.what == "ceiling":
        ceiling(given.repeats, given.seconds, pinned=given.pinned)
    else:
        compare(given.repeats, given.trials)


if __name__ == "__main__":
    main()

"""Twenty searches at once, each in a process of its own, on one Ray and one ledger of this machine.

    python -m benchmarks.many_at_once [--searches 20] [--trials 2000]

The simulated trial takes no time. Printed: searches that finished with all of their trials; seconds of wall from the
first start to the last end; the largest memory of a driver; and the most open files of a driver while the middle tenth
of its life lasted, and while its last tenth did, which are alike where none is left open.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from multiprocessing import get_context

import psutil

SPACE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}
EVERY_SECONDS = 0.5


def search(number: int, trials: int) -> None:
    """Search one study to its end."""
    from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
    from tune_vfl.driver.campaign_run import run_campaign
    from tune_vfl.execution.trainable_spec import TrainableSpec
    from tune_vfl.records.campaigns import PlannedCampaign
    from tune_vfl.records.plans import PlannedStudy
    from tune_vfl.spaces.named import space_of

    budget, sampler = {"trials": trials, "seeds": 1}, {"name": "random", "seed": number}
    spec = simulated_spec(f"study-{number}", defense=SPACE, sampler=sampler, budget=budget)
    cell = simulated_cell(spec)
    plan = PlannedStudy(spec, cell, space_of(spec, cell))
    run_campaign(PlannedCampaign.of(plan), progress=False, work=TrainableSpec(SimulatedTrainable, {"noise": 0.01}))


def main() -> None:
    """Search, look, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--trials", type=int, default=2000, help="of all searches together")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUNE_VFL_HOME"] = home
        import ray

        from tune_vfl.execution import ray_session

        with ray_session.quiet_tune():
            ray_session.connect()
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
        _measure(asked.searches, asked.trials // asked.searches)


def _measure(searches: int, trials: int) -> None:
    from tune_vfl.service.studies import campaign_record

    begun = time.monotonic()
    context = get_context("spawn")
    drivers = [context.Process(target=search, args=(number, trials)) for number in range(searches)]
    for driver in drivers:
        driver.start()
    memory: defaultdict[int, list[int]] = defaultdict(list)
    files: defaultdict[int, list[int]] = defaultdict(list)
    while any(driver.is_alive() for driver in drivers):
        for driver in drivers:
            try:
                process = psutil.Process(driver.pid)
                memory[driver.pid or 0].append(process.memory_info().rss)
                files[driver.pid or 0].append(process.num_fds())
            except psutil.Error:  # it has ended
                continue
        time.sleep(EVERY_SECONDS)
    wall = time.monotonic() - begun
    counted = [len(campaign_record(f"study-{number}").studies[0].counted) for number in range(searches)]
    whole = sum(count == trials and driver.exitcode == 0 for count, driver in zip(counted, drivers, strict=True))
    print(f"{whole} of {searches} searches finished, {sum(counted)} trials in {wall:.0f} s")
    print(f"largest driver: {max(map(max, memory.values())) / 2**20:.0f} MiB")
    middle = max(max(seen[len(seen) // 2 : len(seen) * 6 // 10 + 1]) for seen in files.values())
    last = max(max(seen[len(seen) * 9 // 10 :]) for seen in files.values())
    print(f"open files of a driver: {middle} in the middle, {last} at the end")


if __name__ == "__main__":
    main()

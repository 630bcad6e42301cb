"""What a search costs beside the trials themselves: ask, Ray Tune, tell, MLflow, with the simulated trainable.

    python benchmarks/search_overhead.py [--without-mlflow] [--samplers random tpe nsga2] [--trials 100 1000]

Wall seconds a trial from the first trial's end to the end of the search, so that starting Ray and its workers is left
out; and the driver's CPU seconds a trial. The simulated trial takes no time, so everything measured is overhead. Packs
are as a search with 3 seeds makes them, and one by one beside it.
"""

import argparse
import os
import tempfile
import time

from trainables.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl.ledger.planned import PlannedStudy
from tune_vfl.search.runner import Work, run_study
from tune_vfl.spaces.named import space_of

WIDE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}


class Clock:
    """Notes when the first trial ended. MLflow's own lag counts, because a search waits for it at its end."""

    def __init__(self):
        self.first = self.trials = self.cpu = 0

    def on_trial(self, record):
        self.trials += 1
        if not self.first:
            self.first, self.cpu = time.perf_counter(), time.process_time()

    def on_study(self, record):
        pass


def measure(sampler: str, trials: int, pack: str | int, *, mlflow: bool) -> tuple[float, float]:
    """Return wall and driver CPU seconds a trial."""
    name = f"{sampler}-{trials}-{pack}"
    spec = simulated_spec(
        name, sampler=sampler, defense=WIDE, budget={"trials": trials, "seeds": 3}, resources={"pack": pack}
    )
    cell = simulated_cell(spec)
    clock = Clock()
    listeners = [clock]
    if mlflow:
        from tune_vfl.tracking.mlflow import Recorder

        listeners.append(Recorder(name))
    work = Work(SimulatedTrainable, {"noise": 0.01})
    run_study(PlannedStudy(spec, cell, space_of(spec, cell)), listeners=listeners, progress=False, work=work)
    after = max(1, trials - 1)
    return (time.perf_counter() - clock.first) / after, (time.process_time() - clock.cpu) / after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samplers", nargs="+", default=["random", "tpe", "nsga2"])
    parser.add_argument("--trials", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--packs", nargs="+", default=["auto", "1"])
    parser.add_argument("--without-mlflow", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUNE_VFL_HOME"] = home
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        measure("random", 8, "auto", mlflow=not given.without_mlflow)  # Ray's and MLflow's own start
        print("| sampler | trials | pack | wall s a trial | driver CPU s a trial |\n|---|---|---|---|---|")
        for sampler in given.samplers:
            for pack in given.packs:
                for trials in given.trials:
                    wall, cpu = measure(
                        sampler, trials, pack if pack == "auto" else int(pack), mlflow=not given.without_mlflow
                    )
                    print(f"| {sampler} | {trials} | {pack} | {wall:.3f} | {cpu:.3f} |", flush=True)


if __name__ == "__main__":
    main()

"""Time to a decision: from `tune-vfl search campaign.yaml` to its report.

    python -m benchmarks.decision spambase breast_cancer [--trials 240] [--attacks default] [--code CHECKOUT]

A campaign of twelve defenses, 20 trials and 3 seeds each, `attacks: default` unless named, the random sampler with one
seed, in a fresh home each; spambase needs TUNE_VFL_DATA. With the checkout of another version that one is run in turns
with this one, and both must have found the same: settings are matched, and the largest differences of their numbers and
of the front's are printed.

Wall seconds go from the start of `search` to the end of `report`. CPU seconds are those of all processes that the two
verbs started, Ray's included, each as it was last seen in /proc, twice a second, for Ray does not wait for its workers;
this process adopts what loses its parent (Linux). The breakdown is of CPU seconds, as `probes/sitecustomize.py` counts
them in each worker. What neither a verb nor a worker at work took is Ray's own, with the workers that it keeps waiting.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.memory import family_of

DATASETS = ("spambase", "breast_cancer")
DEFENSES = (
    "discorloss",
    "discrete_sgd",
    "fedpass",
    "gaussian",
    "gradient_compression",
    "iso",
    "label_dp",
    "laplace",
    "marvell",
    "mid",
    "ppdl",
    "sgsub",
)
TRIALS, SEEDS = 20, 3
PROBES = Path(__file__).parent / "probes"
ORDER = ("training", "attack", "trials, the rest", "undefended model", "references and floors", "cost of each defense")
PATIENCE_SECONDS, LOOK_SECONDS = 60.0, 0.5
PR_SET_CHILD_SUBREAPER = 36
# Each version reads its own ledger, and says the same of it.
READ = """
import json, sys
from tune_vfl.service.studies import campaign_record
for study in campaign_record(sys.argv[1]).studies:
    for trial in study.trials:
        told = trial.outcome.model_dump(mode="json", include={"outcome", "utility", "leakage", "attacks"})
        print(json.dumps({"setting": [study.cell.defense, trial.params], **told}))
"""


class Run(NamedTuple):
    """One campaign.

    Attributes:
        wall, cpu: seconds; ``stages``: CPU seconds by stage, which add up to ``cpu``.
        trials, front: what came of each setting, and of those of the joint front, by defense and parameters.
    """

    wall: float
    cpu: float
    stages: Mapping[str, float]
    trials: Mapping[str, dict[str, Any]]
    front: Mapping[str, dict[str, Any]]


def campaign(dataset: str, trials: int, attacks: Sequence[str]) -> dict[str, Any]:
    """Return the spec, which is JSON and hence YAML."""
    return {
        "study": "decision",
        "dataset": dataset,
        "defense": list(DEFENSES),
        "attacks": list(attacks),
        "budget": {"trials": trials, "seeds": SEEDS},
        "sampler": {"name": "random", "seed": 0},
    }


def run(dataset: str, trials: int, attacks: Sequence[str], code: Path) -> Run:
    """Search a campaign with one version of the code, report it, and read what was found."""
    with tempfile.TemporaryDirectory(prefix="decision-") as folder:
        home = Path(folder)
        (home / "stages").mkdir()
        (home / "campaign.yaml").write_text(json.dumps(campaign(dataset, trials, attacks)))
        places = {"TUNE_VFL_HOME": str(home / "home"), "PYTHONPATH": str(code)}
        counted = {**places, "PYTHONPATH": f"{PROBES}:{code}", "TUNE_VFL_STAGES": str(home / "stages")}
        with Watched() as watched:
            begun = time.monotonic()
            verb(["search", "campaign.yaml"], home, counted)
            verb(["report", "decision"], home, counted)
            wall = time.monotonic() - begun
        counts = {int(one.stem): json.loads(one.read_text()) for one in (home / "stages").iterdir()}
        for pid, told in counts.items():
            watched.cpu[pid] = max(watched.cpu.get(pid, 0.0), told["cpu"])
        cpu = sum(watched.cpu.values())
        stages = by_stage(list(counts.values()), cpu)
        lines = called([sys.executable, "-c", READ, "decision"], home, places).splitlines()
        rows = {key_of(*row.pop("setting")): row for row in map(json.loads, lines)}
        front = json.loads(verb(["frontier", "decision", "--json"], home, places))
    return Run(wall, cpu, stages, rows, points(front))


def verb(words: Sequence[str], home: Path, places: Mapping[str, str]) -> str:
    """Run a verb of the version that the environment leads to."""
    return called([sys.executable, "-m", "tune_vfl", *words], home, places)


def called(command: Sequence[str], home: Path, places: Mapping[str, str]) -> str:
    """Return what a command prints; a search that ended with failed trials (3) has ended too."""
    ended = subprocess.run(
        command, cwd=home, env={**os.environ, **places}, check=False, capture_output=True, encoding="utf-8"
    )
    if ended.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command[:4])} failed with {ended.returncode}:\n{ended.stderr[-2000:]}")
    return ended.stdout


class Watched:
    """All processes that this one has started, and what they have started, while in the block.

    Attributes:
        cpu: by process, the CPU seconds that it had taken when it was last seen.
    """

    def __init__(self) -> None:
        self.cpu: dict[int, float] = {}
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watched:
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and wait for what is still ending: it must not run beside the next search."""
        self._over.set()
        self._watching.join()
        self._look()
        end = time.monotonic() + PATIENCE_SECONDS
        with suppress(ChildProcessError):
            while time.monotonic() < end:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(LOOK_SECONDS)

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for pid in family_of(os.getpid())[1:]:
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self.cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def by_stage(processes: Sequence[Mapping[str, Any]], cpu: float) -> dict[str, float]:
    """Add up what the processes counted.

    Args:
        processes: what the probe wrote of each.
        cpu: of all processes together.
    """
    stages: dict[str, float] = defaultdict(float)
    for told in processes:
        words = told["command"]
        if "tune_vfl" in words and not told["stages"]:
            stages["report" if "report" in words else "driver, with MLflow and the page"] += told["cpu"]
        elif told["stages"]:
            for stage, seconds in told["stages"].items():
                stages[stage] += seconds
            stages["starting workers"] += max(0.0, told["cpu"] - sum(told["stages"].values()))
    stages["Ray, with workers that wait"] = cpu - sum(stages.values())
    return dict(sorted(stages.items(), key=lambda item: (_rank(item[0]), -item[1])))


def _rank(stage: str) -> int:
    return next((i for i, start in enumerate(ORDER) if stage.startswith(start)), len(ORDER))


def points(told: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what a decision is made from: the front's settings with their numbers, intervals and attacks."""
    kept = ("utility", "leakage", "utility_interval", "leakage_interval", "attacks")
    return {key_of(point["defense"], point["params"]): {name: point[name] for name in kept} for point in told}


def key_of(defense: str, params: Mapping[str, Any]) -> str:
    """Return a setting as text."""
    return json.dumps([defense, params], sort_keys=True)


def difference(one: Any, other: Any) -> float:
    """Return the largest difference between the numbers of two answers; infinite where they say other things."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and set(one) == set(other):
        return max((difference(one[k], other[k]) for k in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max((difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, float | int) and isinstance(other, float | int):
        return abs(one - other)
    return 0.0 if one == other else math.inf


def compared(one: Run, other: Run) -> list[str]:
    """Say in how far two versions found the same."""
    lines = []
    if set(one.trials) != set(other.trials):
        return [f"other trials: {len(set(one.trials) ^ set(other.trials))} settings were tried by one version only"]
    # A version may leave attacks of a trial for later: what both have measured must agree.
    left = sum(set(one.trials[k]["attacks"]) != set(other.trials[k]["attacks"]) for k in one.trials)
    ends = sum(one.trials[k]["outcome"] != other.trials[k]["outcome"] for k in one.trials)
    numbers = _within(one, other, list(one.trials))
    lines.append(f"{len(one.trials)} trials: {ends} ended otherwise, {left} with other attacks; within: {numbers}")
    by_defense = {defense: [k for k in one.trials if _defense_of(k) == defense] for defense in DEFENSES}
    lines += [f"{defense}: {_within(one, other, keys)}" for defense, keys in by_defense.items() if keys]
    if set(one.front) == set(other.front):
        lines.append(f"front: the same {len(one.front)} settings, within {difference(one.front, other.front):.2g}")
    else:
        alone = Counter(map(_defense_of, set(one.front) ^ set(other.front)))
        lines.append(
            f"front: DIFFERENT, {alone.total()} of {len(one.front)} settings are on one of them only: {dict(alone)}"
        )
    return lines


def _defense_of(key: str) -> str:
    defense: str = json.loads(key)[0]
    return defense


def _within(one: Run, other: Run, keys: Sequence[str]) -> str:
    apart = {what: max(_apart(one.trials[k], other.trials[k], what) for k in keys) for what in WHAT}
    return ", ".join(f"{what} {largest:.2g}" for what, largest in apart.items())


def _apart(one: Mapping[str, Any], other: Mapping[str, Any], what: str) -> float:
    if what == "utility":
        return difference((one["utility"] or {}).get("values"), (other["utility"] or {}).get("values"))
    both = set(one["attacks"]) & set(other["attacks"])
    return max((difference(one["attacks"][a][what], other["attacks"][a][what]) for a in both), default=0.0)


WHAT = ("utility", "values", "advantages", "floors")


def table(dataset: str, runs: Sequence[Sequence[Run]]) -> list[str]:
    """Return the rows of a data set, a column a version: medians of its turns."""
    stages = sorted({stage for found in runs for one in found for stage in one.stages}, key=_rank)
    rows = [("wall, s", [[one.wall for one in found] for found in runs])]
    rows.append(("CPU, s, all processes", [[one.cpu for one in found] for found in runs]))
    rows += [(stage, [[one.stages.get(stage, 0.0) for one in found] for found in runs]) for stage in stages]
    return [f"| {dataset} | {name} | {_cells([median(values) for values in columns])} |" for name, columns in rows]


def _cells(values: Sequence[float]) -> str:
    shown = [f"{value:.1f}" for value in values]
    return " | ".join([*shown, f"{values[0] / values[1]:.2f}" if values[1] else "-"] if len(values) == 2 else shown)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", choices=DATASETS)
    parser.add_argument("--trials", type=int, default=TRIALS * len(DEFENSES), help="of the campaign, in all")
    parser.add_argument("--attacks", nargs="+", default=["default"], help="name them where defaults differ")
    parser.add_argument("--code", type=Path, help="the checkout of another version")
    parser.add_argument("--turns", type=int, default=1)
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    here = Path(__file__).resolve().parents[1]
    versions = [here] if given.code is None else [given.code.resolve(), here]
    print("| data set | what | " + ("before | after | ratio |" if given.code else "this version |"))
    print("|---" * (2 + (3 if given.code else 1)) + "|", flush=True)
    for dataset in given.datasets:
        turns = [[run(dataset, given.trials, given.attacks, code) for code in versions] for _ in range(given.turns)]
        print("\n".join(table(dataset, list(zip(*turns, strict=True)))), flush=True)
        if given.code is not None:
            print("\n" + "\n".join(compared(*turns[0])) + "\n", flush=True)


if __name__ == "__main__":
    main()

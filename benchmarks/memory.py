"""Peak memory of a whole search with two workers: the driver, Ray, MLflow and the workers together.

Run: python -m benchmarks.memory (with TUNE_VFL_DATA holding spambase and bank)

Proportional set size (PSS): memory that processes share counts once. Read from /proc, hence Linux only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEARCH = """
from tune_vfl import search
search({{
    "study": "memory", "dataset": "{dataset}", "defense": "laplace", "attacks": {attacks},
    "training": {{"epochs": {epochs}}}, "budget": {{"trials": 12, "seeds": 3}}, "resources": {{"concurrency": 2}},
}})
"""
CASES = [
    ("breast_cancer", "['norm', 'direction', 'pmc']", 30),
    ("spambase", "['norm', 'mean', 'pmc']", 50),
    ("bank", "['norm', 'mean', 'pmc']", 10),
]


def family_of(root: int) -> list[int]:
    """Return a process and all that it started, in the same session or not."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    family = [root]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return family


def pss(pid: int) -> int:
    """Return a process's proportional set size in bytes; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def peak_of(dataset: str, attacks: str, epochs: int) -> float:
    """Run one search and return the peak in GiB, looked at twice a second."""
    code = SEARCH.format(dataset=dataset, attacks=attacks, epochs=epochs)
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "TUNE_VFL_HOME": home}
        search = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
        peak = 0
        while search.poll() is None:
            peak = max(peak, sum(pss(pid) for pid in family_of(search.pid)))
            time.sleep(0.5)
    if search.returncode:
        raise SystemExit(f"the search on {dataset} failed with exit code {search.returncode}")
    return peak / 2**30


def main() -> None:
    """Print the table."""
    print("| data set | attacks | peak, GiB |\n|---|---|---|")
    for dataset, attacks, epochs in CASES:
        print(f"| {dataset} | {attacks} | {peak_of(dataset, attacks, epochs):.2f} |", flush=True)


if __name__ == "__main__":
    main()

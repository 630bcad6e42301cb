"""Wall, CPU and memory of `data check`, `validate` and a search on a sample, for a table of a million rows.

Run: python -m benchmarks.million_rows FOLDER [--rows 1000000] [--sample 50000] [--numbers 10] [--only "data check"]

A wide table: --rows 1000 --numbers 5000 --only "data check".

CPU and memory (PSS: what processes share counts once) are those of the command and of all that it starts, looked at
twice a second in /proc, hence Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.memory import family_of, pss

COLORS = np.array(["red", "green", "blue", "grey", "black"])


def write_table(path: Path, rows: int, numbers: int = 10) -> None:
    """Write an id, a time, numbers with a little to tell of the label, four counts, three categories, and the label."""
    rng = np.random.default_rng(0)
    y = (rng.random(rows) < 0.12).astype(int)
    columns = {"customer": rng.integers(0, rows // 5, rows), "opened": 1_600_000_000 + rng.integers(0, 6 * 10**7, rows)}
    columns |= {f"n{k}": (rng.normal(size=rows) + 0.05 * (k % 10) * y).round(3) for k in range(numbers)}
    columns |= {f"i{k}": rng.integers(0, 100, rows) + y * k for k in range(4)}
    columns |= {f"c{k}": COLORS[rng.integers(0, len(COLORS), rows)] for k in range(3)}
    pd.DataFrame({**columns, "default": y}).to_csv(path, index=False)


def seconds_of(pid: int) -> float:
    """Return the CPU seconds of a process; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def measure(command: list[str], home: Path) -> tuple[float, float, float]:
    """Run a command; return wall and CPU seconds, and the peak in GiB."""
    begun, peak, spent = time.monotonic(), 0, dict[int, float]()
    environment = {**os.environ, "TUNE_VFL_HOME": str(home)}
    ran = subprocess.Popen([sys.executable, "-m", "tune_vfl", *command], env=environment, stdout=subprocess.DEVNULL)
    while ran.poll() is None:
        family = family_of(ran.pid)
        peak = max(peak, sum(map(pss, family)))
        spent |= {pid: seconds for pid in family if (seconds := seconds_of(pid))}
        time.sleep(0.5)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {ran.returncode}")
    return time.monotonic() - begun, sum(spent.values()), peak / 2**30


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=50_000)
    parser.add_argument("--numbers", type=int, default=10)
    parser.add_argument("--only", help="the one command to measure")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    table, spec = asked.folder / "table.csv", asked.folder / "spec.yaml"
    write_table(table, asked.rows, asked.numbers)
    dataset = {"name": "csv", "path": str(table), "label": "default", "exclude": ["customer", "opened"], "split": 0.5}
    study = {"study": "million", "dataset": dataset, "defense": "laplace", "attacks": "default"}
    study |= {"training": {"epochs": 5}, "budget": {"trials": 12, "seeds": 1}}
    spec.write_text(json.dumps(study))
    commands = {
        "data check": ["data", "check", str(spec)],
        "validate": ["validate", str(spec)],
        "search": ["search", str(spec), "--set", f"dataset.rows={min(asked.sample, asked.rows)}"],
    }
    for name in [asked.only] if asked.only else commands:
        wall, cpu, peak = measure(commands[name], asked.folder / "home")
        print(f"{name:10} {wall:7.1f} s wall {cpu:7.1f} s CPU {peak:6.2f} GiB", flush=True)


if __name__ == "__main__":
    main()

"""What a short search costs beside its trials: CPU seconds of every process that it starts, by what the process is.

``python -m benchmarks.short_search``: 32 trials of laplace on breast_cancer, one seed, attacks norm and direction, from
the command to its end. Another version is measured by its own copy, with ``PYTHONPATH`` naming its folder. Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.memory import family_of

SPEC = """
study: short
dataset: breast_cancer
defense: laplace
attacks: [norm, direction]
budget: {{trials: {trials}, seeds: 1}}
"""
# By what a process calls itself at last, the first that fits.
KINDS = (
    ("CellTrainable", "trials, references and the defense's cost"),
    ("ResourceTrainable", "trials, references and the defense's cost"),
    ("ray::IDLE", "starting workers"),
    ("default_worker", "starting workers"),
    ("ray", "Ray itself"),
)
_TICKS = os.sysconf("SC_CLK_TCK")


def seconds_of(pid: int) -> float | None:
    """Return the CPU seconds of a process itself; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS


def called(pid: int) -> str:
    """Return what a process is called now; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kind_of(names: list[str]) -> str:
    """Return what a process was, by all that it was called."""
    said = " ".join(names)
    return next((kind for mark, kind in KINDS if mark in said), "other")


def searched(trials: int) -> tuple[float, dict[str, float]]:
    """Run the search; return its wall seconds, and CPU seconds by kind of process, looked at ten times a second."""
    with tempfile.TemporaryDirectory() as home:
        spec = Path(home) / "spec.yaml"
        spec.write_text(SPEC.format(trials=trials))
        begun = time.perf_counter()
        search = subprocess.Popen(
            [sys.executable, "-m", "tune_vfl", "search", str(spec), "--json"],
            env={**os.environ, "TUNE_VFL_HOME": home, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        spent: dict[int, float] = {}
        names: dict[int, list[str]] = {}
        while search.poll() is None:
            for pid in family_of(search.pid):
                seconds, name = seconds_of(pid), called(pid)
                if seconds is not None:
                    spent[pid] = seconds
                    names.setdefault(pid, []).append(name)
            time.sleep(0.1)
        wall = time.perf_counter() - begun
    if search.returncode:
        raise SystemExit(f"the search failed with exit code {search.returncode}")
    found: defaultdict[str, float] = defaultdict(float)
    for pid, seconds in spent.items():
        found["driver" if pid == search.pid else kind_of(list(dict.fromkeys(names[pid])))] += seconds
    return wall, found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=32)
    options = parser.parse_args()
    wall, found = searched(options.trials)
    print("| what | CPU s |\n|---|---|")
    for kind, seconds in sorted(found.items(), key=lambda item: -item[1]):
        print(f"| {kind} | {seconds:.1f} |")
    total = sum(found.values())
    print(f"| all, {total / options.trials:.2f} a trial, {wall:.0f} s wall | {total:.1f} |")


if __name__ == "__main__":
    main()

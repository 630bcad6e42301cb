"""How long a data set takes that an earlier process of this machine has loaded.

``python -m benchmarks.loading``: each data set is loaded in a process of its own, first with an empty cache, then
``--repeats`` times. Wall seconds of the imports that ``load`` needs beside torch, of ``load`` after them, and of
another ``load`` in the same process, which is what a worker's second trial waits for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

LIMITS = {"mnist": 0.3, "give_me_some_credit": 0.5}
_PROBE = """
import json, sys, time
import torch
moments = [time.perf_counter()]
from tune_vfl.data import load
from tune_vfl.data.base import DATASETS
from tune_vfl.spec import Named
DATASETS[sys.argv[1]]
import safetensors.torch
moments.append(time.perf_counter())
for _ in range(2):
    data = load(Named(name=sys.argv[1]))
    moments.append(time.perf_counter())
print(json.dumps([len(data.y), *(b - a for a, b in zip(moments, moments[1:]))]))
"""


def once(name: str, home: str) -> tuple[int, float, float, float]:
    """Load a data set twice in a fresh process; return its rows, and seconds of imports and of either load."""
    answer = subprocess.run(
        [sys.executable, "-c", _PROBE, name],
        env={**os.environ, "XDG_CACHE_HOME": home},
        capture_output=True,
        text=True,
        check=True,
    )
    rows, imports, load, again = json.loads(answer.stdout)
    return rows, imports, load, again


def main() -> None:
    """Print a table of the first and of later loads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(LIMITS))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(
        "| data set | rows | first process, s | later ones: imports, s | load, s | limit, s | again in one process, s |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in options.names:
        with tempfile.TemporaryDirectory() as home:
            rows, _, first, _ = once(name, home)
            later = [once(name, home) for _ in range(options.repeats)]
        imports, load, again = (statistics.median(run[k] for run in later) for k in (1, 2, 3))
        limit = LIMITS.get(name, "-")
        print(f"| {name} | {rows:,} | {first:.2f} | {imports:.2f} | {load:.3f} | {limit} | {again:.4f} |", flush=True)


if __name__ == "__main__":
    main()

"""Each routine in machine code against its twin in torch, built for several generations of x86-64.

    python -m benchmarks.kernels [--repeats 9] [--march x86-64-v3]

In turns, one process for each instruction set, one thread: medians of CPU milliseconds a call, natively and in torch,
and how many times as fast machine code is. Torch and its libraries are held to the same instruction set.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.problem import medians
from tune_vfl.attacks.parts import kmeans
from tune_vfl.defenses.parts import sparse_vector
from tune_vfl.kernels import build, distances, passes, rows
from tune_vfl.kernels.chain import Passes
from tune_vfl.kernels.form import Form
from tune_vfl.kernels.native import native_passes
from tune_vfl.machine.runtime import prepare_process

# By instruction set: flags of /proc/cpuinfo that it needs, and its name in torch, MKL and oneDNN.
LEVELS = {
    "x86-64-v2": ({"ssse3", "sse4_2", "popcnt"}, ("default", "SSE4_2", "SSE41")),
    "x86-64-v3": ({"avx2", "fma", "bmi2", "f16c", "movbe"}, ("avx2", "AVX2", "AVX2")),
    "x86-64-v4": ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, ("avx512", "AVX512", "AVX512_CORE")),
}
VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")


class Timed(NamedTuple):
    """A routine at one shape, and its CPU milliseconds a call in machine code and in torch."""

    routine: str
    shape: str
    native: float
    torch: float


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def without(module: object, name: str, run: Callable[[], object]) -> Callable[[], object]:
    """Return ``run`` where a module's routine is not there, so that torch does its work."""

    def in_torch() -> object:
        with patch.object(module, name, lambda: None):
            return run()

    return in_torch


Ways = tuple[Callable[[], object], Callable[[], object]]


def chain_ways(members: int, count: int, widths: tuple[int, ...]) -> Ways:
    """Return a pass through a chain and back."""
    form = Form(members, widths, (*((("relu", 0.0),) * (len(widths) - 2)), ("none", 0.0)))
    line, x, grad = drawn(form.layers[-1].end), drawn(members, count, widths[0]), drawn(members, count, widths[-1])

    def both(way: Passes) -> Callable[[], object]:
        def run() -> object:
            _, kept = way.forward(form, line, x)
            return way.backward(form, line, x, kept, grad, to_x=False)

        return run

    return both(native_passes() or passes), both(passes)


def adding_ways(members: int, count: int, columns: int, whole: int) -> Ways:
    """Return rows added to those of their numbers."""
    sums, given = torch.zeros(members, whole, columns), drawn(members, count, columns)
    ids = torch.randint(whole, (members, count), generator=torch.Generator().manual_seed(1))
    run = partial(rows.add_rows, sums, ids, given)
    return run, without(rows, "native_adder", run)


def visit_ways(members: int, places: int, wanted: int) -> Ways:
    """Return entries visited one after the other."""
    run = partial(
        sparse_vector.accepted_places, drawn(members, places), drawn(members, places, seed=1) + 1, [wanted] * members
    )
    return run, without(sparse_vector, "native_visit", run)


def cluster_ways(members: int, count: int, width: int, clusters: int) -> Ways:
    """Return one start of k-means."""
    unit = kmeans.unit(drawn(members, count, width).double())
    draws = torch.rand(members, clusters, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    run = partial(kmeans.clustered, unit, draws, kmeans.ROUNDS)
    return run, without(kmeans, "native_clustering", run)


def correlation_ways(members: int, count: int, width: int) -> Ways:
    """Return the distance correlation with two classes and its gradient."""
    x = drawn(members, count, width)
    y = torch.randint(2, (members, count), generator=torch.Generator().manual_seed(1))

    def run() -> object:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(distances.class_correlation(leaf, y, 2).sum(), leaf)

    return run, without(distances, "native_correlation", run)


# Three shapes of each: members first, then rows of a batch.
CASES: dict[str, tuple[Callable[..., Ways], tuple[tuple[Any, ...], ...]]] = {
    "chain": (chain_ways, ((60, 256, (28, 16, 1)), (18, 1024, (32, 64, 10)), (6, 64, (784, 128, 64)))),
    "add_rows": (adding_ways, ((60, 256, 1, 3680), (60, 256, 16, 3680), (18, 1024, 64, 1438))),
    "visit": (visit_ways, ((18, 4096, 409), (18, 16384, 1638), (60, 1024, 10))),
    "cluster": (cluster_ways, ((60, 398, 10, 40), (18, 1438, 16, 10), (6, 3680, 64, 2))),
    "correlate": (correlation_ways, ((6, 1028, 1), (2, 1028, 10), (2, 1028, 64))),
}


def measured(repeats: int) -> Iterator[Timed]:
    """Yield each routine at its shapes, as this process has it."""
    for name, (ways, shapes) in CASES.items():
        for shape in shapes:
            native, twin = medians(ways(*shape), repeats)
            yield Timed(name, " x ".join(map(str, shape)), 1000 * native, 1000 * twin)


def built_for(march: str, repeats: int) -> list[Timed]:
    """Measure in a process of its own, where machine code and torch have this instruction set."""
    held = dict(zip(VARIABLES, LEVELS[march][1], strict=True)) if march in LEVELS else {}
    command = [sys.executable, "-m", "benchmarks.kernels", "--march", march, "--repeats", str(repeats)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **held})
    return [Timed(*one) for one in json.loads(ran.stdout)]


def runs() -> list[str]:
    """Return the instruction sets that this processor has."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return ["native"]
    flags = {
        w for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags") for w in line.split()
    }
    return [name for name, (needed, _) in LEVELS.items() if needed <= flags]


def main() -> None:
    """Print the table, or the figures of one instruction set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--march", help="measure this instruction set alone, in this process")
    given = parser.parse_args()
    if given.march:
        prepare_process()
        build.OPTIONS = tuple(f"-march={given.march}" if o.startswith("-march=") else o for o in build.OPTIONS)
        print(json.dumps(list(measured(given.repeats))))
        return
    found = {march: built_for(march, given.repeats) for march in runs()}
    print(f"| routine | shape | {' | '.join(f'{march}: ms, torch, ratio' for march in found)} |")
    print("|---" * (2 + len(found)) + "|")
    for row in zip(*found.values(), strict=True):
        cells = (f"{one.native:.2f}, {one.torch:.2f}, {one.torch / one.native:.1f}" for one in row)
        print(f"| {row[0].routine} | {row[0].shape} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

"""What the hand-written selections buy: each beside the plain ways to the same answer, in one run.

Run: python -m benchmarks.selection [--rows 256] [--dims 16 128] [--repeats 15]

Largest magnitudes (``gradient_compression``, ``sparsification``): 75% of the entries of 60 steps, by
:func:`~tune_vfl.defenses.parts.selection.keep_largest`, by ``torch.kthvalue`` and by ``torch.sort``.
Sparse vectors (``ppdl`` at its defaults): by :func:`~tune_vfl.defenses.parts.sparse_vector.accepted_places`, by a loop
over the entries in Python, and by what a device gets. Every way's answer is held against the first one's.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.problem import cpu_seconds
from tune_vfl.defenses.parts.selection import keep_largest, top_magnitudes_on_device
from tune_vfl.defenses.parts.sparse_vector import accepted_by_links, accepted_places
from tune_vfl.defenses.ppdl import CHOOSING, PpdlParams
from tune_vfl.machine.runtime import prepare_process

STEPS, KEEP = 60, 0.75
Way = Callable[[], Sequence[Tensor]]


def shrinking(size: int) -> list[Tensor]:
    """Return a ``(1, size)`` gradient for each step, normal entries that lose half of their size on the way."""
    g = torch.Generator().manual_seed(0)
    return [torch.randn(1, size, generator=g) * 0.5 ** (step / STEPS) for step in range(STEPS)]


def above(rows: Tensor, limit: Tensor) -> Tensor:
    """Return ``rows`` with 0 for what is not larger than the limit."""
    return rows.masked_fill(rows.abs() <= limit, 0)


def largest_ways(size: int) -> dict[str, Way]:
    """Return the ways to the largest magnitudes; each goes through all steps."""
    steps, rank = shrinking(size), math.floor(KEEP * size)

    def partition() -> list[Tensor]:
        return [keep_largest(rows, [rank], ties=False) for rows in steps]

    def kthvalue() -> list[Tensor]:
        return [above(r, r.abs().kthvalue(size - rank + 1, dim=-1, keepdim=True).values) for r in steps]

    def sort() -> list[Tensor]:
        return [above(r, top_magnitudes_on_device(r, [rank]).unsqueeze(-1)) for r in steps]

    return {"as it is: numpy's partition": partition, "torch.kthvalue": kthvalue, "torch.sort": sort}


def walk(scores: Tensor, thresholds: Tensor, count: int) -> Tensor:
    """Visit the places ``(n,)`` one by one, as the procedure is written down."""
    accepted, marks, limits = [False] * len(scores), scores.tolist(), thresholds.tolist()
    current, left = limits[0], count
    for place, score in enumerate(marks):
        if score >= current:
            accepted[place] = True
            left -= 1
            if not left or place + 1 == len(marks):
                break
            current = limits[place + 1]
    return torch.tensor(accepted)


def sparse_ways(size: int) -> dict[str, Way]:
    """Return the ways to a sparse vector with the noise of ``ppdl``; its magnitudes are nothing beside that."""
    params = PpdlParams()
    count = math.floor(params.theta * size)
    law = torch.distributions.Laplace(0.0, 2 * count * params.sensitivity / (CHOOSING * params.epsilon))
    torch.manual_seed(0)
    scores, thresholds = 2 * law.sample((1, size)), law.sample((1, size))
    return {
        "as it is: a loop in machine code": lambda: [accepted_places(scores, thresholds, [count])[0]],
        "a walk over the entries in Python": lambda: [walk(scores[0], thresholds[0], count).unsqueeze(0)],
        "by links, as on a device": lambda: [accepted_by_links(scores, thresholds, [count])],
    }


class Cost(NamedTuple):
    """Median CPU seconds, and the median of the ratios to the first way."""

    seconds: float
    ratio: float


def compared(ways: Mapping[str, Way], repeats: int) -> dict[str, Cost]:
    """Return what each way costs, measured in turn.

    Raises:
        AssertionError: when one has another answer than the first.
    """
    first, *_ = (way() for way in ways.values())
    for name, way in ways.items():
        if not all(torch.equal(a, b) for a, b in zip(first, way(), strict=True)):
            raise AssertionError(f"{name} has another answer")
    rounds = [[cpu_seconds(way) for way in ways.values()] for _ in range(repeats)]
    found = {}
    for place, name in enumerate(ways):
        taken = statistics.median(seconds[place] for seconds in rounds)
        found[name] = Cost(taken, statistics.median(seconds[place] / seconds[0] for seconds in rounds))
    return found


def main() -> None:
    """Print a row per way and width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--dims", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    prepare_process()
    print("| what | way | B x d | CPU ms | ratio |\n|---|---|---|---|---|")
    for d in given.dims:
        size = given.rows * d
        for what, ways, calls in (
            ("largest magnitudes", largest_ways(size), STEPS),
            ("sparse vector", sparse_ways(size), 1),
        ):
            for name, (seconds, ratio) in compared(ways, given.repeats).items():
                print(f"| {what} | {name} | {given.rows} x {d} | {1000 * seconds / calls:.3f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()

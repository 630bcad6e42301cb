"""The penalty of discorloss, forward and backward, in each way that it was ever computed.

Run: python -m benchmarks.discorloss [--repeats 21]

In turns, one process, one thread, medians of CPU milliseconds a member: the distances of rows and of labels as two
B x B matrices, sums over classes in torch, and machine code. Beside them stands what two products with a B x B matrix
take in double precision, to it and from it: what any way must pay that keeps such a matrix.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.problem import medians
from tune_vfl.kernels.distances import class_correlation, native_correlation
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.metrics.correlation import class_distance_correlation, distance_correlation

CASES = ((1028, 1), (1028, 10), (1028, 16), (1028, 64), (256, 1), (256, 10), (32, 10))
MEMBERS, CLASSES = 2, 2


def by_matrices(x: Tensor, y: Tensor) -> Tensor:
    """Return the correlation as it was before its labels were summed by class."""
    return distance_correlation(x.double(), one_hot(y, CLASSES).double())


def work(way: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Callable[[], None]:
    """Return one step of the penalty."""

    def step() -> None:
        rows = x.clone().requires_grad_()
        way(rows, y).sum().backward()

    return step


def products(x: Tensor) -> Callable[[], None]:
    """Return the two products."""
    rows = x.double()

    def both() -> None:
        _ = (rows @ rows.mT) @ rows

    return both


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=21)
    given = parser.parse_args()
    prepare_process()
    if native_correlation() is None:
        print("no compiler: machine code is torch here")
    print("| batch | width | two matrices | sums over classes | machine code | ratio | products |")
    print("|---" * 7 + "|")
    for rows, width in CASES:
        g = torch.Generator().manual_seed(0)
        x, y = torch.randn(MEMBERS, rows, width, generator=g), torch.randint(CLASSES, (MEMBERS, rows), generator=g)
        ways = (
            by_matrices,
            lambda a, b: class_distance_correlation(a, b, CLASSES),
            lambda a, b: class_correlation(a, b, CLASSES),
        )
        times = medians([*(work(way, x, y) for way in ways), products(x)], given.repeats)
        first, second, third, floor = (1000 * seconds / MEMBERS for seconds in times)
        print(f"| {rows} | {width} | {first:.2f} | {second:.2f} | {third:.3f} | {first / third:.0f} | {floor:.2f} |")


if __name__ == "__main__":
    main()

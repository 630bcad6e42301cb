"""What a step costs a member of a pack, over the time of its multiplications alone: natively, in torch, by autograd.

The same network as in benchmarks.packs, no defense, packs of trials by three seeds; ways and sizes in turn, medians.
Run: python -m benchmarks.steps [--members 18 36 72 144]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from unittest.mock import patch

import torch

from benchmarks.problem import made_up_rows, mlp
from tune_vfl.data.base import Split
from tune_vfl.kernels import chain
from tune_vfl.kernels.native import native_passes
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.models.layers import Linear
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.spec import Training

SEEDS = (0, 1, 2)
SPLIT = Split.stack([made_up_rows(seed) for seed in SEEDS])
WAYS = ("native", "torch", "autograd")
BATCHES = (1028, 256, 32)
STEPS = 5
"""That are timed at once: the first one finds the cache full of what was timed before it."""


def stepping(way: str, members: int, batch: int) -> Callable[[], object]:
    """Return what takes one step of a pack's training after another."""
    pack = Pack(SEEDS, members // len(SEEDS))
    with ExitStack() as changed:
        if way == "autograd":
            changed.enter_context(patch.object(SplitTraining, "_stepping", lambda self, model, taken: model))
        elif way == "torch":
            changed.enter_context(patch.object(chain, "native_passes", lambda: None))
        recipe = Training(epochs=1_000_000, batch_size=batch, lr=1e-3)
        steps = SplitTraining(mlp(pack), Rows(SPLIT, pack), recipe, [], pack.lead).steps()
    next(steps)
    return lambda: [next(steps) for _ in range(STEPS)]


def multiplications(batch: int) -> int:
    """Return the floating-point operations of a member's products in a step: forward, to weights, and to inputs."""
    network = mlp(Pack((0,), 1))
    firsts = {id(next(m for m in b.modules() if isinstance(m, Linear))) for b in (*network.bottoms, network.own_bottom)}
    layers = [m for m in network.modules() if isinstance(m, Linear)]
    return sum(2 * batch * layer.weight[0].numel() * (2 if id(layer) in firsts else 3) for layer in layers)


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this thread that ``work`` takes."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def lines(sizes: Sequence[int], repeats: int) -> Iterator[str]:
    """Yield the lines of the table."""
    a, b = torch.randn(1024, 256), torch.randn(256, 1024)
    ways = [way for way in WAYS if way != "native" or native_passes() is not None]
    named = " | ".join(f"{way}, us (over the limit)" for way in ways)
    yield f"| batch | members | limit, us | {named} | GFLOP/s of a product |"
    yield "|---" * (len(ways) + 4) + "|"
    for batch in BATCHES:
        for members in sizes:
            works = [stepping(way, members, batch) for way in ways]
            taken = [[seconds(work) for work in (lambda: a @ b, *works)] for _ in range(repeats)]
            product, *each = (statistics.median(column) for column in zip(*taken, strict=True))
            each = [whole / STEPS for whole in each]
            rate = 2 * a.numel() * b.shape[1] / product
            limit = multiplications(batch) / rate
            cells = [f"{s / members * 1e6:.0f} ({s / members / limit:.1f})" for s in each]
            yield f"| {batch} | {members} | {limit * 1e6:.1f} | {' | '.join(cells)} | {rate / 1e9:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", nargs="+", type=int, default=[18])
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    prepare_process()
    for line in lines(given.members, given.repeats):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""MixMatch of a head on embeddings that stay: the step written out against autograd, in turns, in one process.

Run: python -m benchmarks.mixmatch
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from tune_vfl.attacks.parts.inference_head import InferenceHead
from tune_vfl.attacks.parts.mixed_rows import Fit, Pool
from tune_vfl.attacks.parts.mixmatch import mixmatch
from tune_vfl.attacks.parts.mixmatch_head import mixmatch_of_head
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.seeds import Streams

ROWS, WIDTH, LABELED, SEEDS, STEPS, TURNS = 380, 64, 20, 3, 150, 5


def microseconds(train: Callable[..., None], members: int) -> float:
    """Return what a step of so many members costs this process."""
    seeds = [k % SEEDS for k in range(members)]
    streams = Streams(seeds)
    rows = torch.arange(ROWS).expand(members, ROWS)
    head = InferenceHead(WIDTH, 2, layers=1, stream=streams["head"], lead=(members,))
    targets = torch.eye(2)[torch.arange(LABELED) % 2].expand(members, LABELED, 2)
    pool = Pool(streams["x"].normal(ROWS, WIDTH), rows[:, :LABELED], targets, rows[:, LABELED:])
    start = time.process_time()
    train(head, pool, Fit(STEPS, 2e-3, 16), streams=lambda name: streams[name])
    return 1e6 * (time.process_time() - start) / STEPS


def main() -> None:
    """Print the table."""
    prepare_process()
    print("| members | by autograd, us a step | written out | ratio |\n|---|---|---|---|")
    for members in (1, 18, 72):
        turns = [(microseconds(mixmatch, members), microseconds(mixmatch_of_head, members)) for _ in range(TURNS)]
        plain, written = (median(column) for column in zip(*turns, strict=True))
        print(f"| {members} | {plain:.0f} | {written:.0f} | {plain / written:.1f} |", flush=True)


if __name__ == "__main__":
    main()
